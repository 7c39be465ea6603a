#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/io/gguf/format.h"
#include "binade/io/path.h"
#include "binade/tensor/tensor.h"

// Writes GGUF files.
namespace binade::io::gguf {

class Writer {
 public:
  // Keys, in the order of the calls.
  void add(std::string_view name, std::string_view text);
  void add_u32(std::string_view name, int64_t value);
  void add_f32(std::string_view name, double value);
  void add_flag(std::string_view name, bool value);
  void add_texts(std::string_view name, const std::vector<std::string>& texts);
  void add_i32s(std::string_view name, std::span<const int32_t> values);
  void add_f32s(std::string_view name, std::span<const float> values);

  // A tensor. `values` is called when it is written and gives f32 values of that shape on the CPU,
  // contiguous. Fails for a type that is not written and for rows that its blocks do not divide.
  void add_tensor(std::string name, Shape shape, const TensorType& type,
                  std::function<Tensor()> values);

  // Replaces the file atomically. Fails for values that a tensor's type cannot hold.
  void write(const Path& path) const;

 private:
  struct Entry {
    std::string name;
    Shape shape;
    const TensorType* type;
    int64_t bytes;
    std::function<Tensor()> values;
  };

  void start_key(std::string_view name, ValueType type);
  void start_array(std::string_view name, ValueType element, size_t count);

  std::string keys_;
  int64_t key_count_ = 0;
  std::vector<Entry> tensors_;
};

// Whether tensors of a type can be written.
bool is_written(const TensorType& type);

}  // namespace binade::io::gguf
