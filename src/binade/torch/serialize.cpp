#include "binade/torch/serialize.h"

#include "binade/io/safetensors.h"

namespace binade::torch {
namespace {

constexpr const char* tensor_key = "tensor";

const Tensor& entry(const StateDict& state, const std::string& key, const std::string& path) {
  const auto found = state.find(key);
  if (found != state.end()) return found->second;
  fail("load", {.argument = path, .expected = "a tensor " + key, .found = "no such tensor"});
}

}  // namespace

void save(const Tensor& x, const std::string& path) {
  io::save_safetensors(path, {{tensor_key, x.detach()}});
}
void load(Tensor& x, const std::string& path) {
  x = entry(io::load_safetensors(path), tensor_key, path);
}

void load(Tensor& x, const std::string& path, binade::Device device) {
  load(x, path);
  x = x.to(device);
}

void save(const std::vector<Tensor>& tensors, const std::string& path) {
  StateDict state;
  for (size_t i = 0; i < tensors.size(); ++i) state[std::to_string(i)] = tensors[i].detach();
  io::save_safetensors(path, state);
}
void load(std::vector<Tensor>& tensors, const std::string& path) {
  const StateDict state = io::load_safetensors(path);
  tensors.clear();
  for (size_t i = 0; i < state.size(); ++i)
    tensors.push_back(entry(state, std::to_string(i), path));
}

void save_module(binade::nn::Module& module, const std::string& path) {
  io::save_safetensors(path, module.state_dict());
}
void load_module(binade::nn::Module& module, const std::string& path) {
  module.load_state_dict(io::load_safetensors(path));
}

void save(optim::Optimizer& optimizer, const std::string& path) {
  io::save_safetensors(path, optimizer.state_dict());
}
void load(optim::Optimizer& optimizer, const std::string& path) {
  optimizer.load_state_dict(io::load_safetensors(path));
}

namespace serialize {

void OutputArchive::save_to(const std::string& path) const { io::save_safetensors(path, tensors_); }

void InputArchive::load_from(const std::string& path) { tensors_ = io::load_safetensors(path); }

void InputArchive::read(const std::string& key, Tensor& tensor, bool is_buffer) {
  if (!try_read(key, tensor, is_buffer))
    fail("read", {.argument = "key", .expected = "a key of the archive", .found = key});
}

bool InputArchive::try_read(const std::string& key, Tensor& tensor, bool) {
  const auto found = tensors_.find(key);
  if (found == tensors_.end()) return false;
  tensor = found->second;
  return true;
}

std::vector<std::string> InputArchive::keys() const {
  std::vector<std::string> result;
  for (const auto& [key, tensor] : tensors_) result.push_back(key);
  return result;
}

}  // namespace serialize
}  // namespace binade::torch
