#pragma once

#include <map>
#include <optional>
#include <unordered_map>

#include "binade/io/file.h"
#include "binade/nn/module.h"

// Tensors in files: the safetensors format. Every field of a file is validated before use.
namespace binade::io {

// A tensor's entry in the header of a file.
struct TensorEntry {
  std::string name;
  std::string format;          // as the file calls it: "BF16"
  std::optional<DType> dtype;  // none: Binade has no such tensors (I8, U16, F8_E8M0, ...)
  std::vector<int64_t> shape;
  int64_t offset = 0;  // of the first byte in the file
  int64_t bytes = 0;

  bool operator==(const TensorEntry&) const = default;
};

// "F32 [2, 3]"; a very long shape is cut.
std::string describe(const TensorEntry& entry);

// The format's name of a type: "BF16".
std::string_view safetensors_format(DType dtype);

using Metadata = std::map<std::string, std::string>;

// A file opened for reading. Opening reads only the header; a tensor's bytes are read on demand.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const Path& path);

  const std::string& path() const { return path_; }
  // In the order of their data.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  const Metadata& metadata() const { return metadata_; }
  const TensorEntry* find(const std::string& name) const;

  // A copy of the data as a tensor on the CPU.
  Tensor load(const TensorEntry& entry) const;
  Tensor load(const std::string& name) const;
  // The raw little-endian data.
  std::span<const std::byte> bytes(const TensorEntry& entry) const;

 private:
  std::string path_;
  MappedFile file_;
  std::vector<TensorEntry> entries_;
  std::unordered_map<std::string, size_t> by_name_;
  Metadata metadata_;
};

// The tensors of one safetensors file, or of the shards that a model.safetensors.index.json names.
class TensorStore {
 public:
  // A path that ends in .json is an index; its shards are in the same folder.
  explicit TensorStore(const std::filesystem::path& path);

  const std::map<std::string, const TensorEntry*>& entries() const { return entries_; }
  Tensor load(const std::string& name) const;

 private:
  void open_index(const std::filesystem::path& path);
  void refuse_copies(const SafetensorsFile& shard, const std::filesystem::path& index) const;

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const TensorEntry*> entries_;
  std::map<std::string, const SafetensorsFile*> file_of_;
};

// All tensors of a file.
StateDict load_safetensors(const Path& path);

// Writes tensors of any device, the widest types first and then by name, with {"format": "pt"} and
// the given strings as metadata. The file is replaced atomically.
void save_safetensors(const Path& path, const StateDict& tensors, const Metadata& metadata = {});

}  // namespace binade::io
