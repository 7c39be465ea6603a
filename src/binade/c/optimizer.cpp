#include "binade/c/optimizer.h"

#include <cstdlib>
#include <cstring>

#include "binade/c/handles.h"
#include "binade/optim/adam.h"
#include "binade/optim/catalog.h"
#include "binade/optim/clip.h"
#include "binade/optim/sgd.h"

namespace binade::c {
namespace {

// The parameters; a null handle is an error here.
std::vector<Tensor> parameters_of(const bnd_tensor* const* handles, size_t count,
                                  const char* function) {
  std::vector<Tensor> parameters = tensors_of(handles, count, function);
  for (const Tensor& parameter : parameters)
    if (!parameter.defined())
      fail(function, {.argument = "parameters", .expected = "tensors", .found = "NULL"});
  return parameters;
}

optim::AdamOptions adam_options(const bnd_adam_options& options) {
  return {.lr = options.lr,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .eps = options.eps,
          .weight_decay = options.weight_decay};
}

// "bf16", "0.9, 0.95" or another text.
optim::OptionValue value_of_text(const std::string& text) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::u8}) {
    if (text == name(dtype)) return dtype;
  }
  std::vector<double> numbers;
  const char* next = text.c_str();
  while (*next != '\0') {
    char* end = nullptr;
    numbers.push_back(std::strtod(next, &end));
    if (end == next) return text;
    next = end + std::strspn(end, ", ");
  }
  return numbers;
}

optim::OptionValue value_of(const bnd_option& option) {
  switch (option.kind) {
    case BND_INT:
      return static_cast<double>(option.integer);
    case BND_FLOAT:
      return option.number;
    case BND_TEXT:
      return value_of_text(&checked(option.text, "bnd_optimizer_new", option.name));
    case BND_INTS:
      break;
  }
  return optim::OtherValue{"a list of integers"};
}

optim::Optimizer& optimizer_of(bnd_optimizer* handle, const char* function) {
  return *checked(handle, function, "optimizer").value;
}

}  // namespace
}  // namespace binade::c

using namespace binade;
using namespace binade::c;

extern "C" {

bnd_status bnd_adamw_new(const bnd_tensor* const* parameters, size_t count,
                         const bnd_adam_options* options, bnd_optimizer** result) {
  return giving("bnd_adamw_new", result, [&] {
    return std::make_unique<optim::AdamW>(
        parameters_of(parameters, count, "bnd_adamw_new"),
        adam_options(checked(options, "bnd_adamw_new", "options")));
  });
}

bnd_status bnd_adam_new(const bnd_tensor* const* parameters, size_t count,
                        const bnd_adam_options* options, bnd_optimizer** result) {
  return giving("bnd_adam_new", result, [&] {
    return std::make_unique<optim::Adam>(parameters_of(parameters, count, "bnd_adam_new"),
                                         adam_options(checked(options, "bnd_adam_new", "options")));
  });
}

bnd_status bnd_sgd_new(const bnd_tensor* const* parameters, size_t count,
                       const bnd_sgd_options* options, bnd_optimizer** result) {
  return giving("bnd_sgd_new", result, [&] {
    const bnd_sgd_options& given = checked(options, "bnd_sgd_new", "options");
    return std::make_unique<optim::SGD>(
        parameters_of(parameters, count, "bnd_sgd_new"),
        optim::SgdOptions{
            .lr = given.lr, .momentum = given.momentum, .weight_decay = given.weight_decay});
  });
}

bnd_status bnd_optimizer_new(const char* name, const bnd_tensor* const* parameters, size_t count,
                             const bnd_option* options, size_t option_count,
                             bnd_optimizer** result) {
  return giving("bnd_optimizer_new", result, [&] {
    optim::NamedGroup group{parameters_of(parameters, count, "bnd_optimizer_new"), {}};
    if (option_count > 0) checked(options, "bnd_optimizer_new", "options");
    for (size_t i = 0; i < option_count; ++i) {
      checked(options[i].name, "bnd_optimizer_new", "option's name");
      group.options.emplace(options[i].name, value_of(options[i]));
    }
    return optim::find_optimizer(&checked(name, "bnd_optimizer_new", "name")).make({group});
  });
}

void bnd_optimizer_free(bnd_optimizer* optimizer) { delete optimizer; }

bnd_status bnd_optimizer_step(bnd_optimizer* optimizer) {
  return guarded([&] { optimizer_of(optimizer, "bnd_optimizer_step").step(); });
}

bnd_status bnd_optimizer_zero_grad(bnd_optimizer* optimizer) {
  return guarded([&] { optimizer_of(optimizer, "bnd_optimizer_zero_grad").zero_grad(); });
}

bnd_status bnd_optimizer_set_lr(bnd_optimizer* optimizer, double lr) {
  return guarded([&] { optimizer_of(optimizer, "bnd_optimizer_set_lr").set_lr(lr); });
}

bnd_status bnd_optimizer_clip_grad_norm(bnd_optimizer* optimizer, double max_norm, double* norm) {
  return guarded([&] {
    const Tensor before = optim::clip_grad_norm(
        optimizer_of(optimizer, "bnd_optimizer_clip_grad_norm").parameters(), max_norm);
    if (norm) *norm = before.item();
  });
}

bnd_status bnd_optimizer_state(bnd_optimizer* optimizer, bnd_state** result) {
  return giving("bnd_optimizer_state", result,
                [&] { return optimizer_of(optimizer, "bnd_optimizer_state").state_dict(); });
}

bnd_status bnd_optimizer_load_state(bnd_optimizer* optimizer, const bnd_state* state) {
  return guarded([&] {
    optimizer_of(optimizer, "bnd_optimizer_load_state")
        .load_state_dict(checked(state, "bnd_optimizer_load_state", "state").value);
  });
}
}
