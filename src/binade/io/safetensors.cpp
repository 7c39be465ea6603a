#include "binade/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "binade/autograd/grad_mode.h"
#include "binade/base/json.h"
#include "binade/io/safetensors_header.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/shape/shape.h"

static_assert(std::endian::native == std::endian::little,
              "safetensors holds little-endian data, copied as it is");

namespace binade::io {
namespace {

constexpr int64_t prefix_bytes = 8;
constexpr int64_t min_header = 8;
constexpr int64_t max_header = 100'000'000;

// The tensors must cover the data exactly: no hole, no overlap, nothing left over.
void check_cover(const std::string& path, const std::vector<TensorEntry>& entries,
                 int64_t data_start, int64_t file_bytes) {
  int64_t covered = data_start;
  for (const TensorEntry& entry : entries) {
    if (entry.offset != covered) {
      fail(safetensors_reader,
           {.argument =
                fmt::format("{} at byte {} ({})", path, entry.offset, json::in_quotes(entry.name)),
            .expected =
                fmt::format("data that starts at byte {}, where the one before ends", covered),
            .found = entry.offset < covered ? "an overlap" : "a hole"});
    }
    covered += entry.bytes;
  }
  if (covered != file_bytes) {
    fail(safetensors_reader, {.argument = fmt::format("{} at byte {}", path, covered),
                              .expected = "the end of the file after the last tensor",
                              .found = fmt::format("{} bytes more", file_bytes - covered)});
  }
}

// The header's text, which follows its length.
std::string_view header_text(const std::string& path, std::span<const std::byte> bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size < prefix_bytes) {
    fail(safetensors_reader, {.argument = path,
                              .expected = "at least 8 bytes",
                              .found = std::to_string(size),
                              .hint = "not a safetensors file"});
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const uint64_t limit = static_cast<uint64_t>(std::min(max_header, size - prefix_bytes));
  if (length < min_header || length > limit) {
    fail(safetensors_reader,
         {.argument = path + " at byte 0",
          .expected = fmt::format("a header of {} to {} bytes", min_header, limit),
          .found = std::to_string(length),
          .hint = length > limit && length <= max_header ? "the file is cut short"
                                                         : "not a safetensors file"});
  }
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + prefix_bytes, length);
  if (header[0] != '{') {
    fail(safetensors_reader, {.argument = path + " at byte 8",
                              .expected = "'{'",
                              .found = json::in_quotes(header.substr(0, 1))});
  }
  return header;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const Path& path)
    : path_(path.string()), file_(path, safetensors_reader) {
  const auto size = static_cast<int64_t>(file_.bytes().size());
  const std::string_view header = header_text(path_, file_.bytes());
  const int64_t data_start = prefix_bytes + static_cast<int64_t>(header.size());
  Header read = read_header(
      {.text = header, .file = path_, .data_start = data_start, .data_bytes = size - data_start});
  entries_ = std::move(read.entries);
  metadata_ = std::move(read.metadata);
  std::sort(entries_.begin(), entries_.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  check_cover(path_, entries_, data_start, size);
  for (size_t i = 0; i < entries_.size(); ++i) by_name_[entries_[i].name] = i;
}

const TensorEntry* SafetensorsFile::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorEntry& entry) const {
  return file_.bytes().subspan(static_cast<size_t>(entry.offset), static_cast<size_t>(entry.bytes));
}

Tensor SafetensorsFile::load(const TensorEntry& entry) const {
  const std::string where =
      fmt::format("{} at byte {} ({})", path_, entry.offset, json::in_quotes(entry.name));
  if (!entry.dtype) {
    fail(safetensors_reader, {.argument = where,
                              .expected = "F64 F32 F16 BF16 F8_E4M3 F8_E5M2 I64 I32 U8 or BOOL",
                              .found = entry.format + ", which Binade has no tensors of"});
  }
  if (std::cmp_greater(entry.shape.size(), max_rank)) {
    fail(safetensors_reader, {.argument = where,
                              .expected = fmt::format("at most {} dimensions", max_rank),
                              .found = std::to_string(entry.shape.size())});
  }
  const std::span<const std::byte> data = bytes(entry);
  if (*entry.dtype == DType::boolean) {
    const auto bad =
        std::find_if(data.begin(), data.end(), [](std::byte b) { return b > std::byte{1}; });
    if (bad != data.end()) {
      fail(safetensors_reader, {.argument = fmt::format("{} at byte {} ({})", path_,
                                                        entry.offset + (bad - data.begin()),
                                                        json::in_quotes(entry.name)),
                                .expected = "0 or 1 in a BOOL tensor",
                                .found = std::to_string(std::to_integer<int>(*bad))});
    }
  }
  Tensor tensor = Tensor::empty(Shape(std::span(entry.shape)), *entry.dtype);
  if (!data.empty()) std::memcpy(tensor.raw_data(), data.data(), data.size());
  file_.check_intact(safetensors_reader);
  return tensor;
}

Tensor SafetensorsFile::load(const std::string& name) const {
  const TensorEntry* entry = find(name);
  if (entry == nullptr)
    fail(safetensors_reader, {.argument = path_,
                              .expected = "a tensor " + json::in_quotes(name),
                              .found = "none of that name"});
  return load(*entry);
}

StateDict load_safetensors(const Path& path) {
  const SafetensorsFile file(path);
  StateDict tensors;
  for (const TensorEntry& entry : file.entries()) tensors[entry.name] = file.load(entry);
  return tensors;
}

TensorStore::TensorStore(const std::filesystem::path& path) {
  if (path.extension() == ".json") {
    open_index(path);
    return;
  }
  files_.push_back(std::make_unique<SafetensorsFile>(path));
  for (const TensorEntry& entry : files_[0]->entries()) {
    entries_[entry.name] = &entry;
    file_of_[entry.name] = files_[0].get();
  }
}

void TensorStore::open_index(const std::filesystem::path& path) {
  const std::string text = read_text(path, safetensors_reader, max_header);
  const json::Document document =
      json::parse(text, {.reader = safetensors_reader, .file = path.string()});
  if (const json::Value* metadata = document.root().find("metadata")) metadata->object();
  std::map<std::string, const SafetensorsFile*> shards;
  for (const auto& [name, shard] : document.root().at("weight_map").object()) {
    const std::string& file = shard.string();
    // A shard is in the folder of its index: a name that could lead anywhere else is refused.
    if (file.empty() || file == "." || file.find("..") != std::string::npos ||
        file.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      shard.refuse("the name of a file beside the index", json::in_quotes(file));
    }
    const SafetensorsFile*& opened = shards[file];
    if (opened == nullptr) {
      files_.push_back(std::make_unique<SafetensorsFile>(path.parent_path() / file));
      opened = files_.back().get();
    }
    const TensorEntry* entry = opened->find(name);
    if (entry == nullptr)
      shard.refuse("a shard that holds " + json::in_quotes(name),
                   json::in_quotes(file) + ", which does not");
    entries_[name] = entry;
    file_of_[name] = opened;
  }
  for (const auto& [file, opened] : shards) refuse_copies(*opened, path);
}

// A tensor that the index has in another shard is a copy, perhaps of other values.
void TensorStore::refuse_copies(const SafetensorsFile& shard,
                                const std::filesystem::path& index) const {
  for (const TensorEntry& entry : shard.entries()) {
    const auto owner = file_of_.find(entry.name);
    if (owner == file_of_.end() || owner->second == &shard) continue;
    fail(safetensors_reader,
         {.argument = shard.path() + " (" + json::in_quotes(entry.name) + ")",
          .expected = fmt::format("each tensor in one shard, this one in {} as {} says",
                                  std::filesystem::path(owner->second->path()).filename().string(),
                                  index.filename().string()),
          .found = "it in both",
          .hint = "put the shards of one model in a folder of their own"});
  }
}

Tensor TensorStore::load(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    fail(safetensors_reader,
         {.argument = "tensors", .expected = json::in_quotes(name), .found = "none of that name"});
  return file_of_.at(name)->load(*found->second);
}

namespace {

// The header of a file that holds `tensors` in this order, padded so that the data is aligned.
std::string header_for(const std::string& path,
                       const std::vector<std::pair<std::string, Tensor>>& tensors,
                       Metadata metadata) {
  metadata.emplace("format", "pt");
  json::Writer header;
  header.begin_object().key(metadata_name).begin_object();
  for (const auto& [name, text] : metadata) header.key(name).value(text);
  header.end_object();
  int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    header.key(name)
        .begin_object()
        .key("dtype")
        .value(safetensors_format(tensor.dtype()))
        .key("shape")
        .begin_array();
    for (const int64_t size : tensor.shape()) header.value(size);
    header.end_array()
        .key("data_offsets")
        .begin_array()
        .value(offset)
        .value(offset + tensor.bytes())
        .end_array()
        .end_object();
    offset += tensor.bytes();
  }
  std::string text = header.end_object().text();
  text.append((prefix_bytes - text.size() % prefix_bytes) % prefix_bytes, ' ');
  if (std::cmp_greater(text.size(), max_header)) {
    fail(safetensors_reader, {.argument = path,
                              .expected = fmt::format("a header of at most {} bytes", max_header),
                              .found = std::to_string(text.size())});
  }
  return text;
}

}  // namespace

void save_safetensors(const Path& path, const StateDict& tensors, const Metadata& metadata) {
  std::vector<std::pair<std::string, Tensor>> ordered(tensors.begin(), tensors.end());
  for (const auto& [name, tensor] : ordered) {
    if (tensor.defined() && !tensor.device().is_meta() && name != metadata_name) continue;
    fail(safetensors_reader,
         {.argument = path.string() + " (" + json::in_quotes(name) + ")",
          .expected = "tensors with data, none called " + std::string(metadata_name),
          .found = describe(tensor)});
  }
  // Wide types first keep every tensor aligned to the size of its elements.
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return size_of(a.second.dtype()) > size_of(b.second.dtype());
  });
  const std::string header = header_for(path.string(), ordered, metadata);
  const auto length = static_cast<uint64_t>(header.size());

  AtomicFile file(path, safetensors_reader);
  file.append(std::as_bytes(std::span(&length, 1)));
  file.append(header);
  const NoGrad no_grad;
  for (const auto& [name, tensor] : ordered) {
    const Tensor host = contiguous(to(tensor, Device::cpu()));
    file.append(
        {static_cast<const std::byte*>(host.raw_data()), static_cast<size_t>(host.bytes())});
  }
  file.commit();
}

}  // namespace binade::io
