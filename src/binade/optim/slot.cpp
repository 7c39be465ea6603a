#include "binade/optim/slot.h"

#include "binade/base/division.h"
#include "binade/base/error.h"
#include "binade/formats/dynamic_code.h"
#include "binade/ops/create/copy.h"

namespace binade::optim {

int64_t state_elements(std::string_view entry, int64_t count) {
  return entry.ends_with("_scale") ? divide_up(count, formats::dynamic_block) : count;
}

Tensor Slot::part_of(const Tensor& whole) const {
  if (!is_shared) return whole;
  return whole.strided({part.count}, {1}, whole.offset() + part.begin);
}

Tensor Slot::part_of(std::string_view entry, const Tensor& whole) const {
  if (!is_shared) return whole;
  return whole.strided({state_elements(entry, part.count)}, {1},
                       whole.offset() + state_elements(entry, part.begin));
}

Tensor& Slot::state(std::string_view entry) {
  const std::pair<std::string_view, Tensor*> all[] = {{"first", &first},
                                                      {"second", &second},
                                                      {"third", &third},
                                                      {"first_scale", &first_scale},
                                                      {"second_scale", &second_scale}};
  for (const auto& [name, tensor] : all) {
    if (name == entry) return *tensor;
  }
  fail("optimizer", {.argument = "state",
                     .expected = "first, second, third or a scale",
                     .found = std::string(entry)});
}

std::vector<std::pair<std::string, Tensor*>> Slot::named_state() {
  std::vector<std::pair<std::string, Tensor*>> result;
  if (master.is_f32()) result.emplace_back("master", &master.f32());
  for (const char* name : {"first", "second", "third", "first_scale", "second_scale"}) {
    if (state(name).defined()) result.emplace_back(name, &state(name));
  }
  return result;
}

void Slot::load(const StateDict& state, const std::string& prefix) {
  for (const auto& [name, tensor] : named_state())
    copy_(*tensor, part_of(name, state.at(prefix + name)));
  if (master.is_split()) load_split_master(*this, state.at(prefix + "master"));
  if (master.is_f32()) {
    copy_(parameter, state.at(prefix + "master"));
    master.note_version(parameter);
  }
  steps = static_cast<int64_t>(state.at(prefix + "steps").item());
}

}  // namespace binade::optim
