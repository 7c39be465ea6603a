#include <algorithm>

#include "binade/c/op_table.h"

namespace binade::c {
namespace {

const Entry& entry_named(const char* name) {
  const std::span<const Entry> table = op_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Entry& one) { return one.name() == name; });
  if (found == table.end())
    fail("bnd_op", {.argument = "name",
                    .expected = "an op that bnd_op_name lists",
                    .found = std::string(name)});
  return *found;
}

// The inputs, with undefined tensors for optional ones that were left out.
std::vector<Tensor> inputs_of(const Entry& entry, const bnd_tensor* const* handles, size_t count) {
  std::vector<Tensor> inputs = tensors_of(handles, count, "bnd_op");
  const std::string_view names = entry.inputs();
  if (names == "...") {
    if (std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return !x.defined(); }))
      fail(entry.name(), {.argument = "inputs", .expected = "tensors", .found = "NULL"});
    return inputs;
  }
  const size_t all = 1 + static_cast<size_t>(std::count(names.begin(), names.end(), ','));
  const size_t optional = static_cast<size_t>(std::count(names.begin(), names.end(), '?'));
  if (inputs.size() < all - optional || inputs.size() > all)
    fail(entry.name(), {.argument = "inputs",
                        .expected = entry.signature,
                        .found = std::to_string(inputs.size()) + " inputs"});
  inputs.resize(all);
  for (size_t i = 0; i < all - optional; ++i)
    if (!inputs[i].defined())
      fail(
          entry.name(),
          {.argument = "input " + std::to_string(i), .expected = entry.signature, .found = "NULL"});
  return inputs;
}

}  // namespace
}  // namespace binade::c

using namespace binade;
using namespace binade::c;

extern "C" {

bnd_status bnd_op(const char* name, const bnd_tensor* const* inputs, size_t input_count,
                  const bnd_option* options, size_t option_count, bnd_tensor** result) {
  return giving("bnd_op", result, [&] {
    checked(name, "bnd_op", "name");
    const Entry& entry = entry_named(name);
    const Options given(options, option_count, entry.signature);
    return entry.call(inputs_of(entry, inputs, input_count), given);
  });
}

size_t bnd_op_count(void) { return op_table().size(); }

const char* bnd_op_name(size_t index) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const Entry& entry : op_table()) result.emplace_back(entry.name());
    return result;
  }();
  return index < names.size() ? names[index].c_str() : nullptr;
}

const char* bnd_op_signature(size_t index) {
  return index < op_table().size() ? op_table()[index].signature.c_str() : nullptr;
}
}
