#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/io/path.h"

// Checksums of files and of records, which tell damage. They do not tell forgery.
namespace binade::io {

// The XXH3 of a file, 32 hexadecimal digits.
std::string hash_of_file(const Path& file, std::string_view caller);

// A JSON object as text, with the checksum of all before it as its last member "checksum". On one
// line or on several, as the object.
std::string with_checksum(std::string_view object);

enum class ChecksumState : uint8_t { none, right, wrong };
// Checks an object as with_checksum() writes it; none: older versions wrote no checksums.
ChecksumState checksum_state(std::string_view object);

// Fails if the object has a checksum that is not its own.
void check_checksum(std::string_view object, const std::string& file, std::string_view caller);

// An undamaged file of a version of its format that this program does not know.
class VersionError : public Error {
 public:
  using Error::Error;
};
// Fails unless `version`, of the file's text, is 1: with a VersionError if the file is undamaged.
void check_version(const json::Value& version, std::string_view text, const std::string& file,
                   std::string_view caller);

}  // namespace binade::io
