#pragma once

#include <string>
#include <vector>

#include "binade/nn/module.h"
#include "binade/torch/optim.h"

// torch::save and torch::load. Files are safetensors, whatever their names: PyTorch reads them by
// the package of that name, not by torch.load.
namespace binade::torch {

void save(const Tensor& x, const std::string& path);
void load(Tensor& x, const std::string& path);
void load(Tensor& x, const std::string& path, binade::Device device);
void save(const std::vector<Tensor>& tensors, const std::string& path);
void load(std::vector<Tensor>& tensors, const std::string& path);
void save_module(binade::nn::Module& module, const std::string& path);
void load_module(binade::nn::Module& module, const std::string& path);
void save(optim::Optimizer& optimizer, const std::string& path);
void load(optim::Optimizer& optimizer, const std::string& path);

// A holder of a module or a std::shared_ptr to one.
template <class Pointer>
concept ModulePointer = requires(const Pointer& pointer) {
  { *pointer } -> std::convertible_to<const binade::nn::Module&>;
};
template <ModulePointer Pointer>
void save(const Pointer& module, const std::string& path) {
  save_module(*module, path);
}
template <ModulePointer Pointer>
void load(const Pointer& module, const std::string& path) {
  load_module(*module, path);
}

namespace serialize {

// Tensors by key.
class OutputArchive {
 public:
  void write(const std::string& key, const Tensor& tensor, bool is_buffer = false) {
    static_cast<void>(is_buffer);
    tensors_[key] = tensor.detach();
  }
  void save_to(const std::string& path) const;

 private:
  StateDict tensors_;
};

class InputArchive {
 public:
  void load_from(const std::string& path);
  // Fails if there is no such key; try_read() returns false.
  void read(const std::string& key, Tensor& tensor, bool is_buffer = false);
  bool try_read(const std::string& key, Tensor& tensor, bool is_buffer = false);
  std::vector<std::string> keys() const;

 private:
  StateDict tensors_;
};

}  // namespace serialize
}  // namespace binade::torch
