#include "binade/io/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <unordered_set>

#include "binade/base/json.h"

namespace binade::io {
namespace {

struct Format {
  std::string_view name;
  int64_t bytes;
  std::optional<DType> dtype;
};

constexpr Format formats[] = {
    {"F64", 8, DType::f64},
    {"F32", 4, DType::f32},
    {"F16", 2, DType::f16},
    {"BF16", 2, DType::bf16},
    {"F8_E4M3", 1, DType::e4m3},
    {"F8_E5M2", 1, DType::e5m2},
    {"I64", 8, DType::i64},
    {"I32", 4, DType::i32},
    {"U8", 1, DType::u8},
    {"BOOL", 1, DType::boolean},
    {"I8", 1, {}},
    {"I16", 2, {}},
    {"U16", 2, {}},
    {"U32", 4, {}},
    {"U64", 8, {}},
    {"F8_E8M0", 1, {}},
};

const Format* find_format(std::string_view name) {
  const auto* found = std::find_if(std::begin(formats), std::end(formats),
                                   [&](const Format& f) { return f.name == name; });
  return found == std::end(formats) ? nullptr : found;
}

const Format& format_of(const json::Value& name) {
  const std::string& text = name.string();
  if (const Format* found = find_format(text)) return *found;
  std::string known = "one of";
  for (const Format& format : formats) known += " " + std::string(format.name);
  name.refuse(known, json::in_quotes(text));
}

std::vector<int64_t> read_shape(const json::Value& value) {
  std::vector<int64_t> shape;
  for (const json::Value& size : value.array()) {
    shape.push_back(size.integer(0, std::numeric_limits<int64_t>::max()));
  }
  return shape;
}

// None if the product of the non-zero sizes does not fit in 63 bits, even if a zero makes the
// tensor empty.
std::optional<int64_t> bytes_of(const std::vector<int64_t>& shape, int64_t element_bytes) {
  int64_t product = element_bytes;
  for (const int64_t size : shape) {
    if (size > 0 && __builtin_mul_overflow(product, size, &product)) return std::nullopt;
  }
  return std::find(shape.begin(), shape.end(), 0) == shape.end() ? product : 0;
}

TensorEntry read_entry(const json::Member& member, const HeaderText& header) {
  const json::Value& value = member.value;
  for (const json::Member& field : value.object()) {
    if (field.name != "dtype" && field.name != "shape" && field.name != "data_offsets") {
      field.value.refuse("no fields but dtype, shape and data_offsets",
                         json::in_quotes(field.name));
    }
  }
  const Format& format = format_of(value.at("dtype"));
  const json::Value& shape = value.at("shape");
  const json::Value& offsets = value.at("data_offsets");
  TensorEntry entry{.name = member.name,
                    .format = std::string(format.name),
                    .dtype = format.dtype,
                    .shape = read_shape(shape)};
  const std::optional<int64_t> bytes = bytes_of(entry.shape, format.bytes);
  if (!bytes) shape.refuse("a shape of fewer than 2^63 bytes", shape.describe());
  entry.bytes = *bytes;
  if (offsets.array().size() != 2) offsets.refuse("a begin and an end", offsets.describe());
  const int64_t begin = offsets.array()[0].integer(0, std::numeric_limits<int64_t>::max());
  const int64_t end = offsets.array()[1].integer(0, std::numeric_limits<int64_t>::max());
  if (begin > end) offsets.refuse("a begin before the end", fmt::format("{} and {}", begin, end));
  if (end > header.data_bytes) {
    offsets.refuse(fmt::format("an end within the {} bytes of data", header.data_bytes),
                   std::to_string(end), "the file may be cut short");
  }
  if (end - begin != entry.bytes) {
    offsets.refuse(fmt::format("{} bytes for {}", entry.bytes, describe(entry)),
                   std::to_string(end - begin));
  }
  entry.offset = header.data_start + begin;
  return entry;
}

Metadata read_metadata(const json::Value& value) {
  Metadata metadata;
  for (const auto& [name, text] : value.object()) metadata[name] = text.string();
  return metadata;
}

// Reads a header in one pass. Each function returns false at anything that it does not expect.
class PlainReader {
 public:
  explicit PlainReader(const HeaderText& header)
      : header_(header), at_(header.text.data()), end_(at_ + header.text.size()) {}

  bool read(Header& result) {
    const auto member = [&](std::string_view name) {
      return name == metadata_name ? read_metadata(result.metadata)
                                   : read_entry(name, result.entries.emplace_back());
    };
    if (!read_object(member, names_)) return false;
    skip_space();
    return at_ == end_;
  }

 private:
  using Names = std::unordered_set<std::string_view>;

  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }

  // Whether `c` is next; then it is consumed.
  bool accept(char c) {
    skip_space();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  // The document's reader refuses more values, with a message.
  bool count_value() { return ++values_ <= json::max_values; }

  bool read_string(std::string_view& text) {
    if (!accept('"')) return false;
    const char* begin = at_;
    while (at_ != end_ && *at_ >= ' ' && *at_ <= '~' && *at_ != '"' && *at_ != '\\') ++at_;
    text = {begin, static_cast<size_t>(at_ - begin)};
    return at_ != end_ && *at_++ == '"';
  }

  bool read_number(int64_t& value) {
    constexpr std::ptrdiff_t max_digits = 18;  // below 2^63 whatever they are
    skip_space();
    const char* begin = at_;
    value = 0;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9' && at_ - begin < max_digits)
      value = value * 10 + (*at_++ - '0');
    const bool has_leading_zero = at_ - begin > 1 && *begin == '0';
    return at_ != begin && !has_leading_zero && count_value();
  }

  bool read_numbers(std::vector<int64_t>& numbers) {
    if (!accept('[') || !count_value()) return false;
    if (accept(']')) return true;
    do {
      if (!read_number(numbers.emplace_back())) return false;
    } while (accept(','));
    return accept(']');
  }

  // Calls read_member(name) in front of every value; `names` receives the names.
  template <class F>
  bool read_object(const F& read_member, Names& names) {
    if (!accept('{') || !count_value()) return false;
    if (accept('}')) return true;
    do {
      std::string_view name;
      if (!read_string(name) || !names.insert(name).second || !accept(':') || !read_member(name))
        return false;
    } while (accept(','));
    return accept('}');
  }

  bool read_metadata(Metadata& metadata) {
    Names names;
    const auto member = [&](std::string_view name) {
      std::string_view text;
      if (!read_string(text) || !count_value()) return false;
      metadata.emplace(name, text);
      return true;
    };
    return read_object(member, names);
  }

  bool read_entry(std::string_view name, TensorEntry& entry) {
    const Format* format = nullptr;
    bool has_shape = false;
    offsets_.clear();
    if (!accept('{') || !count_value()) return false;
    do {
      std::string_view field, text;
      if (!read_string(field) || !accept(':')) return false;
      if (field == "dtype" && format == nullptr) {
        if (!read_string(text) || !count_value()) return false;
        format = find_format(text);
        if (format == nullptr) return false;
      } else if (field == "shape" && !has_shape) {
        has_shape = true;
        if (!read_numbers(entry.shape)) return false;
      } else if (field == "data_offsets" && offsets_.empty()) {
        if (!read_numbers(offsets_) || offsets_.size() != 2) return false;
      } else {
        return false;
      }
    } while (accept(','));
    if (!accept('}') || format == nullptr || !has_shape || offsets_.empty()) return false;
    const std::optional<int64_t> bytes = bytes_of(entry.shape, format->bytes);
    if (!bytes || offsets_[0] > offsets_[1] || offsets_[1] > header_.data_bytes ||
        offsets_[1] - offsets_[0] != *bytes)
      return false;
    entry.name = name;
    entry.format = format->name;
    entry.dtype = format->dtype;
    entry.offset = header_.data_start + offsets_[0];
    entry.bytes = *bytes;
    return true;
  }

  const HeaderText& header_;
  const char* at_;
  const char* end_;
  int64_t values_ = 0;
  Names names_;
  std::vector<int64_t> offsets_;
};

}  // namespace

std::string_view safetensors_format(DType dtype) {
  return std::find_if(std::begin(formats), std::end(formats),
                      [&](const Format& f) { return f.dtype == dtype; })
      ->name;
}

std::string describe(const TensorEntry& entry) {
  constexpr size_t shown = 16;
  const std::span<const int64_t> sizes(entry.shape.data(), std::min(entry.shape.size(), shown));
  return fmt::format("{} [{}{}]", entry.format, fmt::join(sizes, ", "),
                     entry.shape.size() > shown ? ", ..." : "");
}

std::optional<Header> read_plain_header(const HeaderText& header) {
  Header result;
  if (!PlainReader(header).read(result)) return std::nullopt;
  return result;
}

Header read_header_document(const HeaderText& header) {
  const auto text_start = header.data_start - static_cast<int64_t>(header.text.size());
  const json::Document document = json::parse(
      header.text, {.reader = safetensors_reader, .file = header.file, .offset = text_start});
  Header result;
  for (const json::Member& member : document.root().object()) {
    if (member.name == metadata_name) {
      result.metadata = read_metadata(member.value);
    } else {
      result.entries.push_back(read_entry(member, header));
    }
  }
  return result;
}

Header read_header(const HeaderText& header) {
  if (std::optional<Header> plain = read_plain_header(header)) return std::move(*plain);
  return read_header_document(header);
}

}  // namespace binade::io
