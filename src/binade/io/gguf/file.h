#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "binade/io/file.h"
#include "binade/io/gguf/format.h"
#include "binade/tensor/tensor.h"

// GGUF files, opened for reading. Every field is validated before use; the limits are those of the
// reference reader or lower (docs/security.md).
namespace binade::io::gguf {

// A key with its value, as it stands in the file. The accessors fail, naming the file and the key,
// for a value of another type.
class Key {
 public:
  struct Contents {
    std::string file;
    int64_t offset = 0;  // of the value
    ValueType type = ValueType::u8;
    ValueType element = ValueType::u8;  // of an array
    int64_t count = 1;                  // of an array's elements
    std::span<const std::byte> data = {};
  };
  Key(std::string name, Contents contents) : name_(std::move(name)), value_(std::move(contents)) {}

  const std::string& name() const { return name_; }
  ValueType value_type() const { return value_.type; }
  bool is_array() const { return value_.type == ValueType::array; }
  int64_t count() const { return value_.count; }

  int64_t integer(int64_t low, int64_t high) const;
  double number() const;  // finite
  bool flag() const;
  std::string_view text() const;
  // Of arrays.
  std::vector<std::string_view> texts() const;
  std::vector<int64_t> integers() const;
  std::vector<double> numbers() const;

  // "u32 4096", "array of 32000 strings"; long texts are cut.
  std::string describe() const;
  // Fails: expected this, found the value.
  [[noreturn]] void refuse(const std::string& expected, const std::string& hint = {}) const;

 private:
  bool is_integer() const;
  int64_t integer_at(ValueType type, size_t index) const;
  double number_at(ValueType type, size_t index) const;

  std::string name_;
  Contents value_;
};

// A tensor's entry. The shape has the fastest dimension last, as in safetensors.
struct TensorInfo {
  std::string name;
  const TensorType* type = nullptr;
  std::vector<int64_t> shape;
  int64_t offset = 0;  // of the first byte in the file
  int64_t bytes = 0;

  int64_t elements() const;
};

// "Q4_0 [32, 64]".
std::string describe(const TensorInfo& tensor);

class File {
 public:
  explicit File(const Path& path);

  const std::string& path() const { return path_; }
  const std::vector<Key>& keys() const { return keys_; }
  // Null if there is none.
  const Key* find_key(std::string_view name) const;
  // Fails if there is none.
  const Key& key(std::string_view name) const;
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const TensorInfo* find(const std::string& name) const;

  std::span<const std::byte> bytes(const TensorInfo& tensor) const;
  // A copy of the data on the CPU: in its own type, of blocks in f32. Fails for types that Binade
  // does not decode.
  Tensor load(const TensorInfo& tensor) const;

 private:
  void place_tensors(int64_t data_start, int64_t alignment);

  std::string path_;
  MappedFile file_;
  std::vector<Key> keys_;
  std::unordered_map<std::string_view, size_t> key_index_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
};

// Whether a path is that of a GGUF file: by its extension.
bool is_gguf(const std::filesystem::path& path);

}  // namespace binade::io::gguf
