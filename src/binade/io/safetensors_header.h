#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "binade/io/safetensors.h"

// The header of a safetensors file: JSON that describes the tensors behind it.
namespace binade::io {

// The reader that messages name.
inline constexpr const char* safetensors_reader = "safetensors";
// The member of a header that is not a tensor.
inline constexpr const char* metadata_name = "__metadata__";

// The JSON between the length and the data.
struct HeaderText {
  std::string_view text;
  std::string file;        // for messages
  int64_t data_start = 0;  // offsets in the file
  int64_t data_bytes = 0;
};

struct Header {
  std::vector<TensorEntry> entries;  // in the order of the header
  Metadata metadata;

  bool operator==(const Header&) const = default;
};

// A header whose every field is valid; fails otherwise, with the byte, the field and what it
// should be. Whether tensors cover the data is not checked.
Header read_header(const HeaderText& header);

// The two readers behind read_header(), which agree wherever the first one has a result: in one
// pass, for valid headers in the form that writers use (ASCII names without escapes, whole numbers
// of at most 18 digits), and through a document of all values, several times as slow, for every
// header and for messages.
std::optional<Header> read_plain_header(const HeaderText& header);
Header read_header_document(const HeaderText& header);

}  // namespace binade::io
