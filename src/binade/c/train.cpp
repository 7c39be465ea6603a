#include "binade/c/handles.h"
#include "binade/train/config/config.h"
#include "binade/train/run/loop.h"
#include "binade/train/run/observer.h"
#include "binade/train/run/signals.h"
#include "binade/train/trainer.h"

namespace binade::c {
namespace {

// Passes steps on, and ends the run when the callback asks for it.
class Reporter : public train::Observer {
 public:
  Reporter(bnd_step_callback callback, void* context) : callback_(callback), context_(context) {}

  std::vector<std::string> after_step(train::Trainer&, const data::Tokens&,
                                      const train::StepResult& result) override {
    const bnd_step step{.step = result.step,
                        .skipped = result.skipped,
                        .loss = result.loss,
                        .lr = result.lr,
                        .gradient_norm = result.gradient_norm,
                        .scale = result.scale,
                        .applied = result.applied ? 1 : 0};
    if (callback_(&step, context_) != 0) train::request_stop();
    return {};
  }

 private:
  bnd_step_callback callback_;
  void* context_;
};

}  // namespace
}  // namespace binade::c

using namespace binade;
using namespace binade::c;

extern "C" {

bnd_status bnd_train(const char* toml, bnd_step_callback callback, void* context) {
  return guarded([&] {
    checked(toml, "bnd_train", "toml");
    Reporter reporter(callback, context);
    train::run(train::resolve_text(toml, "toml"), train::Progress::Mode::quiet,
               callback ? &reporter : nullptr);
  });
}
}
