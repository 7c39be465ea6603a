#include "binade/io/gguf/writer.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/parallel.h"
#include "binade/formats/convert.h"
#include "binade/io/file.h"

namespace binade::io::gguf {
namespace {

constexpr const char* writer_name = "gguf";

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& out, std::string_view text) {
  append(out, static_cast<uint64_t>(text.size()));
  out += text;
}

size_t padding_of(size_t bytes) {
  constexpr auto alignment = static_cast<size_t>(default_alignment);
  return (alignment - bytes % alignment) % alignment;
}

// Fails for a value that a plain type cannot hold.
[[noreturn]] void refuse_values(const std::string& name, const TensorType& type) {
  fail(writer_name,
       {.argument = name,
        .expected = fmt::format("values that are finite in {}", type.name),
        .found = "one that is not",
        .hint = type.name == "F16" ? "bf16 has the range of f32: try --type bf16" : ""});
}

void encode_plain(const std::string& name, const TensorType& type, std::span<const float> values,
                  std::byte* bytes) {
  for (const float value : values)
    if (!std::isfinite(value)) refuse_values(name, type);
  if (type.dtype == DType::f32) {
    std::memcpy(bytes, values.data(), values.size_bytes());
  } else if (type.dtype == DType::bf16) {
    auto* codes = reinterpret_cast<bf16*>(bytes);
    formats::narrow(values.data(), codes, values.size());
    for (size_t i = 0; i < values.size(); ++i)
      if (!std::isfinite(static_cast<float>(codes[i]))) refuse_values(name, type);
  } else {
    auto* codes = reinterpret_cast<f16*>(bytes);
    formats::narrow(values.data(), codes, values.size());
    for (size_t i = 0; i < values.size(); ++i)
      if (!std::isfinite(static_cast<float>(codes[i]))) refuse_values(name, type);
  }
}

// The bytes of a tensor. Blocks are coded on all threads, each by itself.
std::vector<std::byte> encode(const std::string& name, const TensorType& type, int64_t size,
                              const Tensor& values) {
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  const std::span<const float> all(values.data<float>(), static_cast<size_t>(values.numel()));
  const formats::BlockFormat* format = type.blocks();
  if (format == nullptr) {
    encode_plain(name, type, all, bytes.data());
    return bytes;
  }
  try {
    parallel_for(values.numel() / format->elements, 16, [&](int64_t first, int64_t last) {
      const auto count = static_cast<size_t>(last - first);
      const auto elements = static_cast<size_t>(format->elements),
                 each = static_cast<size_t>(format->bytes), begin = static_cast<size_t>(first);
      formats::quantize_blocks(*format, all.subspan(begin * elements, count * elements),
                               std::span(bytes).subspan(begin * each, count * each));
    });
  } catch (const Error& error) {
    fail(writer_name, {.argument = name,
                       .expected = error.facts().expected,
                       .found = error.facts().found,
                       .hint = "--type bf16 has the range of f32"});
  }
  return bytes;
}

}  // namespace

bool is_written(const TensorType& type) {
  const formats::BlockFormat* format = type.blocks();
  return format != nullptr
             ? format->quantize != nullptr
             : type.dtype == DType::f32 || type.dtype == DType::f16 || type.dtype == DType::bf16;
}

void Writer::start_key(std::string_view name, ValueType type) {
  append_text(keys_, name);
  append(keys_, static_cast<uint32_t>(type));
  ++key_count_;
}

void Writer::start_array(std::string_view name, ValueType element, size_t count) {
  start_key(name, ValueType::array);
  append(keys_, static_cast<uint32_t>(element));
  append(keys_, static_cast<uint64_t>(count));
}

void Writer::add(std::string_view name, std::string_view text) {
  start_key(name, ValueType::string);
  append_text(keys_, text);
}

void Writer::add_u32(std::string_view name, int64_t value) {
  start_key(name, ValueType::u32);
  append(keys_, static_cast<uint32_t>(value));
}

void Writer::add_f32(std::string_view name, double value) {
  start_key(name, ValueType::f32);
  append(keys_, static_cast<float>(value));
}

void Writer::add_flag(std::string_view name, bool value) {
  start_key(name, ValueType::boolean);
  append(keys_, static_cast<uint8_t>(value));
}

void Writer::add_texts(std::string_view name, const std::vector<std::string>& texts) {
  start_array(name, ValueType::string, texts.size());
  for (const std::string& text : texts) append_text(keys_, text);
}

void Writer::add_i32s(std::string_view name, std::span<const int32_t> values) {
  start_array(name, ValueType::i32, values.size());
  for (const int32_t value : values) append(keys_, value);
}

void Writer::add_f32s(std::string_view name, std::span<const float> values) {
  start_array(name, ValueType::f32, values.size());
  for (const float value : values) append(keys_, value);
}

void Writer::add_tensor(std::string name, Shape shape, const TensorType& type,
                        std::function<Tensor()> values) {
  const int64_t row = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  if (!is_written(type) || row % type.elements != 0 || std::cmp_greater(name.size(), max_name) ||
      shape.rank() > max_dimensions)
    fail(writer_name, {.argument = name,
                       .expected = fmt::format(
                           "a short name, and rows of whole blocks of a type that is written"),
                       .found = fmt::format("{} {}", type.name, to_string(shape))});
  const int64_t bytes = shape.numel() / type.elements * type.bytes;
  tensors_.push_back({std::move(name), shape, &type, bytes, std::move(values)});
}

void Writer::write(const Path& path) const {
  std::string header(magic);
  append(header, version);
  append(header, static_cast<int64_t>(tensors_.size()));
  append(header, key_count_);
  header += keys_;
  uint64_t offset = 0;
  for (const Entry& entry : tensors_) {
    append_text(header, entry.name);
    append(header, static_cast<uint32_t>(entry.shape.rank()));
    for (int64_t i = entry.shape.rank(); i-- > 0;) append(header, entry.shape[i]);
    append(header, static_cast<uint32_t>(entry.type->number));
    append(header, offset);
    offset += static_cast<uint64_t>(entry.bytes) + padding_of(static_cast<size_t>(entry.bytes));
  }
  header.append(padding_of(header.size()), '\0');
  AtomicFile file(path, writer_name);
  file.append(header);
  for (const Entry& entry : tensors_) {
    std::vector<std::byte> bytes = encode(entry.name, *entry.type, entry.bytes, entry.values());
    bytes.resize(bytes.size() + padding_of(bytes.size()));
    file.append(bytes);
  }
  file.commit();
}

}  // namespace binade::io::gguf
