#include <iterator>

#include "binade/c/handles.h"
#include "binade/io/safetensors.h"

using namespace binade;
using namespace binade::c;

extern "C" {

bnd_status bnd_state_new(bnd_state** result) {
  return giving("bnd_state_new", result, [] { return StateDict(); });
}

void bnd_state_free(bnd_state* state) { delete state; }

size_t bnd_state_count(const bnd_state* state) { return state ? state->value.size() : 0; }

const char* bnd_state_name(const bnd_state* state, size_t index) {
  if (index >= bnd_state_count(state)) return nullptr;
  return std::next(state->value.begin(), static_cast<std::ptrdiff_t>(index))->first.c_str();
}

bnd_status bnd_state_get(const bnd_state* state, const char* name, bnd_tensor** result) {
  return giving("bnd_state_get", result, [&] {
    const StateDict& tensors = checked(state, "bnd_state_get", "state").value;
    checked(name, "bnd_state_get", "name");
    const auto found = tensors.find(name);
    if (found == tensors.end())
      fail("bnd_state_get", {.argument = "name",
                             .expected = "one of " + std::to_string(tensors.size()) + " names",
                             .found = name});
    return found->second;
  });
}

bnd_status bnd_state_set(bnd_state* state, const char* name, const bnd_tensor* tensor) {
  return guarded([&] {
    StateDict& tensors = checked(state, "bnd_state_set", "state").value;
    checked(name, "bnd_state_set", "name");
    tensors[name] = tensor_of(tensor, "bnd_state_set");
  });
}

bnd_status bnd_state_read(const char* path, bnd_state** result) {
  return giving("bnd_state_read", result, [&] {
    checked(path, "bnd_state_read", "path");
    return io::load_safetensors(path);
  });
}

bnd_status bnd_state_write(const bnd_state* state, const char* path) {
  return guarded([&] {
    checked(path, "bnd_state_write", "path");
    io::save_safetensors(path, checked(state, "bnd_state_write", "state").value);
  });
}
}
