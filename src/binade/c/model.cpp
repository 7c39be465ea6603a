#include "binade/c/handles.h"
#include "binade/io/huggingface.h"
#include "binade/nn/language_model.h"
#include "binade/train/config/component_options.h"
#include "binade/train/config/config.h"

struct bnd_model {
  std::unique_ptr<binade::nn::LanguageModel> value;
};

using namespace binade;
using namespace binade::c;

namespace binade::c {
namespace {

nn::LanguageModel& model_of(const bnd_model* handle, const char* function) {
  return *checked(handle, function, "model").value;
}

}  // namespace
}  // namespace binade::c

extern "C" {

bnd_status bnd_model_open(const char* folder, bnd_device device, bnd_dtype dtype,
                          bnd_model** result) {
  return giving("bnd_model_open", result, [&] {
    checked(folder, "bnd_model_open", "folder");
    return io::load_pretrained(folder, {device_of(device), type_of(dtype)});
  });
}

bnd_status bnd_model_new(const char* toml, bnd_model** result) {
  return giving("bnd_model_new", result, [&] {
    checked(toml, "bnd_model_new", "toml");
    const train::Config config = train::resolve_text(toml, "toml");
    return std::make_unique<nn::LanguageModel>(train::model_config(config),
                                               train::placement(config));
  });
}

void bnd_model_free(bnd_model* model) { delete model; }

bnd_status bnd_model_save(const bnd_model* model, const char* folder) {
  return guarded([&] {
    checked(folder, "bnd_model_save", "folder");
    io::save_pretrained(model_of(model, "bnd_model_save"), folder);
  });
}

bnd_status bnd_model_logits(bnd_model* model, const bnd_tensor* tokens, bnd_tensor** result) {
  return giving("bnd_model_logits", result, [&] {
    return model_of(model, "bnd_model_logits").logits(tensor_of(tokens, "bnd_model_logits"));
  });
}

bnd_status bnd_model_loss(bnd_model* model, const bnd_tensor* tokens, const bnd_tensor* targets,
                          bnd_tensor** result) {
  return giving("bnd_model_loss", result, [&] {
    return model_of(model, "bnd_model_loss")
        .loss(tensor_of(tokens, "bnd_model_loss"), tensor_of(targets, "bnd_model_loss"));
  });
}

bnd_status bnd_model_state(bnd_model* model, bnd_state** result) {
  return giving("bnd_model_state", result,
                [&] { return model_of(model, "bnd_model_state").state_dict(); });
}

bnd_status bnd_model_load_state(bnd_model* model, const bnd_state* state) {
  return guarded([&] {
    model_of(model, "bnd_model_load_state")
        .load_state_dict(checked(state, "bnd_model_load_state", "state").value);
  });
}

size_t bnd_model_parameter_count(const bnd_model* model) {
  return model ? model->value->parameters().size() : 0;
}

bnd_status bnd_model_parameter(const bnd_model* model, size_t index, bnd_tensor** result) {
  return giving("bnd_model_parameter", result, [&] {
    const std::vector<Tensor> all = model_of(model, "bnd_model_parameter").parameters();
    if (index >= all.size())
      fail("bnd_model_parameter", {.argument = "index",
                                   .expected = "less than " + std::to_string(all.size()),
                                   .found = std::to_string(index)});
    return all[index];
  });
}
}
