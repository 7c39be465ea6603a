#include "binade/train/run/follow.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <thread>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "binade/autograd/op_observer.h"
#include "binade/backend/capabilities.h"
#include "binade/base/parallel.h"
#include "binade/ranks/agreement.h"
#include "binade/train/checkpoint.h"
#include "binade/train/config/component_options.h"
#include "binade/train/run/folder.h"
#include "binade/train/run/order.h"
#include "binade/train/run/origin.h"
#include "binade/train/run/signals.h"
#include "binade/train/shard_writer.h"
#include "binade/version.h"

namespace binade::train {
namespace {

// Observes nothing: ops that are observed may be computed in another way than others, and ranks
// must compute alike.
class Bystander : public autograd::OpObserver {
 public:
  void forward(Op, std::span<const Tensor>, std::span<const Tensor>,
               std::span<const Tensor>) override {}
  void after_backward(const autograd::Node&, std::span<const Tensor>) override {}
};

void take_step(Trainer& trainer, data::Loader& loader, bool observed) {
  Bystander bystander;
  std::optional<autograd::OpObserverScope> scope;
  if (observed) scope.emplace(&bystander);
  trainer.start_step(loader);
  trainer.finished();  // a GPU's last steps run on
}

void set_recipe(Trainer& trainer, const RecipeOrder& order) {
  trainer.set_recipe(order.module, order.recipe, order.amaxes);
}

}  // namespace

void share_threads(const ranks::Communicator& ranks) {
  if (ranks.local_size() == 1) return;
  for (const char* variable : {"BINADE_THREADS", "OMP_NUM_THREADS"}) {
    if (std::getenv(variable) != nullptr) return;
  }
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  set_threads(std::max(1, cores / ranks.local_size()));
}

void agree_with_ranks(const Trainer& trainer, const data::Split& split,
                      const data::Tokenizer& tokenizer) {
  ranks::agree(trainer.ranks(), [&] {
    const std::string_view model = tokenizer.model();
    Config config = trainer.config();
    const bool has_collectives = backend::capabilities(trainer.device()).has_collectives;
    if (has_collectives) config.train.device = Device::cuda();  // each rank has its own
    return ranks::AgreedFacts{
        {"version", version()},
        {"configuration", to_toml(config)},
        {"arithmetic", describe_arithmetic(trainer.device())},
        {"data", describe_data(split)},
        {"tokenizer", std::to_string(XXH3_64bits(model.data(), model.size()))},
        {"communication", trainer.ranks().describe()},
        {"NCCL", has_collectives ? ranks::nccl_version() : ""}};
  });
}

void follow(Trainer& trainer, data::Split split) {
  ranks::Communicator& ranks = trainer.ranks();
  std::optional<data::Loader> loader;  // made after a load, so that it starts at the right step
  ShardWriter shard;
  const SignalGuard signals;
  for (;;) {
    const std::string text = ranks.broadcast_text("order", "");
    ranks.set_phase(text.substr(0, text.find('\n')));
    const Command command = parse_command(text);
    if (command.order != Order::step) trainer.finish_all();
    switch (command.order) {
      case Order::step:
        if (!loader) loader.emplace(split.train, trainer.loader_options());
        trainer.set_stop_signal(signals.stop_signal());
        take_step(trainer, *loader, command.argument.ends_with("observed"));
        break;
      case Order::evaluate:
        trainer.evaluate(split.validation);
        break;
      case Order::state:
        require_finite(trainer);
        trainer.state_dict();
        break;
      case Order::shard:
        shard.start(trainer, command.argument);
        break;
      case Order::join:
        shard.finish(trainer);
        break;
      case Order::hash:
        trainer.hash();
        break;
      case Order::weights:
        trainer.gather_weights();
        break;
      case Order::times:
        trainer.rank_times();
        break;
      case Order::load:
        load_checkpoint(trainer, command.argument);
        break;
      case Order::init:
        trainer.init_from(command.argument);
        break;
      case Order::adapter:
        trainer.load_adapter(command.argument);
        break;
      case Order::reference:
        trainer.prepare_reference(split);
        break;
      case Order::recipe:
        set_recipe(trainer, parse_recipe_order(command.argument));
        break;
      case Order::end:
        return;
    }
  }
}

void follow_run(const Config& config, const std::shared_ptr<ranks::Communicator>& ranks) {
  const auto tokenizer = data::open_tokenizer(config.data.tokenizer);
  data::Source source = data_source(config, tokenizer.get());
  source.cache = token_cache(config);
  const data::Split split = data::read_split(source);
  Trainer trainer(config, ranks);
  agree_with_ranks(trainer, split, *tokenizer);
  follow(trainer, split);
}

}  // namespace binade::train
