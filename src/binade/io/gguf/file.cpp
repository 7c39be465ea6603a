#include "binade/io/gguf/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/parallel.h"
#include "binade/base/text.h"

static_assert(std::endian::native == std::endian::little,
              "GGUF holds little-endian data, copied as it is");

namespace binade::io::gguf {
namespace {

// The smallest key is a name of one byte, a type and a bool, the smallest tensor has no dimensions.
constexpr int64_t min_key_bytes = 8 + 1 + 4 + 1, min_tensor_bytes = 8 + 1 + 4 + 4 + 8;
// Far more than any file has: keys and tensors become objects of a few hundred bytes.
constexpr int64_t max_keys = 65536, max_tensors = int64_t{1} << 20;

// Reads the header in order.
class Cursor {
 public:
  Cursor(std::string path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  int64_t at() const { return static_cast<int64_t>(at_); }
  int64_t left() const { return static_cast<int64_t>(bytes_.size() - at_); }
  const std::string& path() const { return path_; }

  template <class T>
  T value(const std::string& what) {
    T result;
    const std::span<const std::byte> bytes = take(sizeof result, what);
    std::memcpy(&result, bytes.data(), sizeof result);
    return result;
  }

  std::span<const std::byte> take(int64_t count, const std::string& what) {
    if (count > left()) {
      refuse(what, fmt::format("{} bytes", count), fmt::format("{} before the end", left()),
             "the file is cut short or damaged");
    }
    const auto result = bytes_.subspan(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return result;
  }

  // The length in front of a text.
  int64_t length(int64_t limit, const std::string& what) {
    const auto given = value<uint64_t>(what);
    const int64_t most = std::min(limit, left());
    if (std::cmp_greater(given, most))
      refuse_before(8, what, fmt::format("a length of at most {}", most), std::to_string(given));
    return static_cast<int64_t>(given);
  }

  std::string_view text(int64_t limit, const std::string& what) {
    const int64_t size = length(limit, what);
    const std::span<const std::byte> bytes = take(size, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // Fails at the field that ended here and took `bytes`.
  [[noreturn]] void refuse_before(int64_t bytes, const std::string& what,
                                  const std::string& expected, const std::string& found,
                                  const std::string& hint = {}) {
    at_ -= static_cast<size_t>(bytes);
    refuse(what, expected, found, hint);
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& expected,
                           const std::string& found, const std::string& hint = {}) const {
    fail(reader_name, {.argument = fmt::format("{} at byte {} ({})", path_, at_, what),
                       .expected = expected,
                       .found = found,
                       .hint = hint});
  }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

struct Counts {
  int64_t tensors = 0, keys = 0;
};

Counts read_start(Cursor& cursor) {
  if (cursor.left() < 24) {
    cursor.refuse("header", "at least 24 bytes", std::to_string(cursor.left()),
                  "not a GGUF file, or cut short");
  }
  const std::span<const std::byte> start = cursor.take(4, "magic");
  const std::string_view found(reinterpret_cast<const char*>(start.data()), start.size());
  if (found != magic)
    cursor.refuse_before(4, "magic", "\"GGUF\"", json::in_quotes(found), "not a GGUF file");
  const auto number = cursor.value<uint32_t>("version");
  if (number != 2 && number != version) {
    const bool big_endian = (number & 0xffffU) == 0 && number != 0;
    cursor.refuse_before(4, "version", "2 or 3", std::to_string(number),
                         big_endian    ? "the file is for big-endian machines"
                         : number == 1 ? "make the file again with a newer converter"
                                       : "");
  }
  const auto count = [&](const char* what, int64_t smallest, int64_t limit) {
    const auto given = cursor.value<int64_t>(what);
    const int64_t most = std::min(cursor.left() / smallest, limit);
    if (given < 0 || given > most)
      cursor.refuse_before(8, what, fmt::format("0 to {}", most), std::to_string(given),
                           "the file is cut short or damaged");
    return given;
  };
  Counts counts;
  counts.tensors = count("number of tensors", min_tensor_bytes, max_tensors);
  counts.keys = count("number of keys", min_key_bytes, max_keys);
  return counts;
}

ValueType read_type(Cursor& cursor, const std::string& what) {
  const auto number = cursor.value<uint32_t>(what);
  if (number >= value_types)
    cursor.refuse_before(4, what, fmt::format("a type from 0 to {}", value_types - 1),
                         std::to_string(number));
  return static_cast<ValueType>(number);
}

void check_bools(Cursor& cursor, std::span<const std::byte> data, const std::string& what) {
  const auto bad =
      std::find_if(data.begin(), data.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad != data.end())
    cursor.refuse_before(data.end() - bad, what, "0 or 1 for a bool",
                         std::to_string(std::to_integer<int>(*bad)));
}

// The elements of an array, or a single value, which `contents` already describes.
void read_values(Cursor& cursor, ValueType type, const std::string& what, Key::Contents& contents) {
  contents.offset = cursor.at();
  if (type != ValueType::string) {
    contents.data = cursor.take(contents.count * size_of(type), what);
    if (type == ValueType::boolean) check_bools(cursor, contents.data, what);
    return;
  }
  if (!(contents.type == ValueType::array)) {
    const int64_t length = cursor.length(max_array, what);
    contents.data = cursor.take(length, what);
    return;
  }
  const int64_t begin = cursor.at();
  Cursor start = cursor;
  for (int64_t i = 0; i < contents.count; ++i) cursor.text(max_array, what);
  contents.data = start.take(cursor.at() - begin, what);
}

Key read_key(Cursor& cursor, int64_t index) {
  const std::string place = fmt::format("key {}", index);
  const std::string_view name = cursor.text(max_key_name, place + ", name");
  const auto name_bytes = static_cast<int64_t>(name.size());
  if (name.empty()) cursor.refuse(place + ", name", "at least one byte", "none");
  for (size_t i = 0; i < name.size();) {
    const size_t length = utf8_length(name, i);
    if (length == 0)
      cursor.refuse_before(name_bytes, place + ", name", "UTF-8", json::in_quotes(name));
    i += length;
  }
  const std::string what(name);
  Key::Contents contents{.file = cursor.path()};
  contents.type = read_type(cursor, what);
  if (contents.type != ValueType::array) {
    read_values(cursor, contents.type, what, contents);
    return {what, contents};
  }
  contents.element = read_type(cursor, what);
  if (contents.element == ValueType::array)
    cursor.refuse_before(4, what, "an array of plain values", "an array of arrays");
  const auto count = cursor.value<uint64_t>(what);
  const int64_t smallest = std::max<int64_t>(size_of(contents.element), 1);
  const int64_t bytes_each = contents.element == ValueType::string ? 8 : smallest;
  const int64_t most = std::min(max_array, cursor.left() / bytes_each);
  if (std::cmp_greater(count, most))
    cursor.refuse_before(8, what, fmt::format("at most {} elements", most), std::to_string(count));
  contents.count = static_cast<int64_t>(count);
  read_values(cursor, contents.element, what, contents);
  return {what, contents};
}

// None if a product of the non-zero sizes does not fit in 63 bits.
std::optional<int64_t> bytes_of(const TensorInfo& tensor) {
  int64_t elements = 1, bytes = 0;
  for (const int64_t size : tensor.shape) {
    if (size > 0 && __builtin_mul_overflow(elements, size, &elements)) return {};
  }
  if (__builtin_mul_overflow(elements / tensor.type->elements, tensor.type->bytes, &bytes))
    return {};
  const bool empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
  return empty ? 0 : bytes;
}

void read_shape(Cursor& cursor, const std::string& what, TensorInfo& tensor) {
  const auto dimensions = cursor.value<uint32_t>(what);
  if (dimensions > max_dimensions)
    cursor.refuse_before(4, what, fmt::format("at most {} dimensions", max_dimensions),
                         std::to_string(dimensions));
  for (uint32_t i = 0; i < dimensions; ++i) {
    const auto size = cursor.value<int64_t>(what);
    if (size < 0) cursor.refuse_before(8, what, "a size of at least 0", std::to_string(size));
    tensor.shape.insert(tensor.shape.begin(), size);  // the fastest is the first in the file
  }
}

int64_t padded(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// The offset is relative to the data; it must be `expected`.
TensorInfo read_tensor(Cursor& cursor, int64_t index, int64_t expected) {
  const std::string place = fmt::format("tensor {}", index);
  TensorInfo tensor;
  const auto name = cursor.text(max_name, place + ", name");
  if (name.empty()) cursor.refuse(place + ", name", "at least one byte", "none");
  tensor.name = name;
  const std::string what = json::in_quotes(name);
  read_shape(cursor, what, tensor);
  const auto number = cursor.value<uint32_t>(what);
  tensor.type = find_tensor_type(int64_t{number});
  if (tensor.type == nullptr)
    cursor.refuse_before(4, what, "a type of tensors", fmt::format("number {}", number),
                         "the file is damaged, or its format newer than this program");
  const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % tensor.type->elements != 0)
    cursor.refuse_before(
        4, what,
        fmt::format("rows of whole blocks of {} for {}", tensor.type->elements, tensor.type->name),
        fmt::format("{} elements", row));
  const std::optional<int64_t> bytes = bytes_of(tensor);
  if (!bytes) cursor.refuse_before(4, what, "a shape of fewer than 2^63 bytes", describe(tensor));
  tensor.bytes = *bytes;
  const auto offset = cursor.value<uint64_t>(what);
  if (std::cmp_not_equal(offset, expected))
    cursor.refuse_before(8, what, fmt::format("offset {}, right after the tensor before", expected),
                         std::to_string(offset));
  tensor.offset = expected;
  return tensor;
}

int64_t alignment_of(const Key* key) {
  if (key == nullptr) return default_alignment;
  const std::string expected = "a power of two from 1 to 65536, as u32";
  if (key->value_type() != ValueType::u32) key->refuse(expected);
  const int64_t alignment = key->integer(1, 65536);
  if (!std::has_single_bit(static_cast<uint64_t>(alignment))) key->refuse(expected);
  return alignment;
}

}  // namespace

int64_t TensorInfo::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

std::string describe(const TensorInfo& tensor) {
  return fmt::format("{} [{}]", tensor.type->name, fmt::join(tensor.shape, ", "));
}

File::File(const Path& path) : path_(path.string()), file_(path, reader_name) {
  Cursor cursor(path_, file_.bytes());
  const Counts counts = read_start(cursor);
  keys_.reserve(static_cast<size_t>(counts.keys));
  for (int64_t i = 0; i < counts.keys; ++i) {
    const int64_t begin = cursor.at();
    keys_.push_back(read_key(cursor, i));
    if (key_index_.emplace(keys_.back().name(), keys_.size() - 1).second) continue;
    cursor.refuse_before(cursor.at() - begin, fmt::format("key {}", i), "another name",
                         json::in_quotes(keys_.back().name()) + " again");
  }
  const int64_t alignment = alignment_of(find_key(alignment_key));
  int64_t offset = 0;
  tensors_.reserve(static_cast<size_t>(counts.tensors));
  for (int64_t i = 0; i < counts.tensors; ++i) {
    const int64_t begin = cursor.at();
    tensors_.push_back(read_tensor(cursor, i, offset));
    const TensorInfo& tensor = tensors_.back();
    if (!tensor_index_.emplace(tensor.name, tensors_.size() - 1).second)
      cursor.refuse_before(cursor.at() - begin, fmt::format("tensor {}", i), "another name",
                           json::in_quotes(tensor.name) + " again");
    if (tensor.bytes > static_cast<int64_t>(file_.bytes().size()) - offset)
      cursor.refuse_before(
          8, json::in_quotes(tensor.name),
          fmt::format("data that end within the {} bytes of the file", file_.bytes().size()),
          fmt::format("{} bytes at offset {}", tensor.bytes, offset), "the file is cut short");
    offset = padded(offset + tensor.bytes, alignment);
  }
  place_tensors(padded(cursor.at(), alignment), alignment);
}

// Makes offsets those in the file. Only padding may follow the last tensor.
void File::place_tensors(int64_t data_start, int64_t alignment) {
  const auto size = static_cast<int64_t>(file_.bytes().size());
  int64_t end = data_start;
  for (TensorInfo& tensor : tensors_) {
    tensor.offset += data_start;
    end = tensor.offset + tensor.bytes;
    if (end > size)
      fail(reader_name,
           {.argument = fmt::format("{} ({})", path_, json::in_quotes(tensor.name)),
            .expected = fmt::format("data that end within the {} bytes of the file", size),
            .found = fmt::format("{} bytes at byte {}", tensor.bytes, tensor.offset),
            .hint = "the file is cut short"});
  }
  if (size > padded(end, alignment))
    fail(reader_name, {.argument = fmt::format("{} at byte {}", path_, end),
                       .expected = "the end of the file after the last tensor",
                       .found = fmt::format("{} bytes more", size - end)});
}

const Key* File::find_key(std::string_view name) const {
  const auto found = key_index_.find(name);
  return found == key_index_.end() ? nullptr : &keys_[found->second];
}

const Key& File::key(std::string_view name) const {
  if (const Key* found = find_key(name)) return *found;
  fail(reader_name, {.argument = path_,
                     .expected = "the key " + std::string(name),
                     .found = "none of that name"});
}

const TensorInfo* File::find(const std::string& name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

std::span<const std::byte> File::bytes(const TensorInfo& tensor) const {
  return file_.bytes().subspan(static_cast<size_t>(tensor.offset),
                               static_cast<size_t>(tensor.bytes));
}

Tensor File::load(const TensorInfo& tensor) const {
  const formats::BlockFormat* format = tensor.type->blocks();
  if (!tensor.type->dtype && format == nullptr) {
    std::string known = "F32, F16, BF16";
    for (const formats::BlockFormat& one : formats::block_formats())
      known += ", " + std::string(find_tensor_type(int64_t{one.ggml_type})->name);
    fail(reader_name, {.argument = fmt::format("{} ({})", path_, json::in_quotes(tensor.name)),
                       .expected = "one of " + known,
                       .found = describe(tensor)});
  }
  const std::span<const std::byte> data = bytes(tensor);
  Tensor result =
      Tensor::empty(Shape(std::span(tensor.shape)), tensor.type->dtype.value_or(DType::f32));
  if (format == nullptr) {
    if (!data.empty()) std::memcpy(result.raw_data(), data.data(), data.size());
  } else {
    auto* values = static_cast<float*>(result.raw_data());
    constexpr int64_t grain = 64;  // blocks
    parallel_for(tensor.elements() / format->elements, grain, [&](int64_t first, int64_t last) {
      const auto count = static_cast<size_t>(last - first);
      formats::dequantize_blocks(
          *format,
          data.subspan(static_cast<size_t>(first * format->bytes),
                       count * static_cast<size_t>(format->bytes)),
          {values + first * format->elements, count * static_cast<size_t>(format->elements)});
    });
  }
  file_.check_intact(reader_name);
  return result;
}

bool is_gguf(const std::filesystem::path& path) {
  std::error_code error;
  return path.extension() == ".gguf" && !std::filesystem::is_directory(path, error);
}

}  // namespace binade::io::gguf
