#include "binade/io/checksum.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <span>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "binade/io/file.h"

namespace binade::io {
namespace {

constexpr std::string_view checksum_key = "\"checksum\":", white = " \n\r\t";
constexpr size_t digits = 16;

std::string_view without_end(std::string_view text, std::string_view characters) {
  return text.substr(0, text.find_last_not_of(characters) + 1);
}

// Removes `end`, if it is there, and white space before it.
bool drop(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text = without_end(text.substr(0, text.size() - end.size()), white);
  return true;
}

std::string checksum_of(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace

// In pieces whose pages go back to the system: a file as large as the model's state must not count
// as resident memory of the run.
std::string hash_of_file(const Path& file, std::string_view caller) {
  constexpr size_t piece = 4 << 20;  // whole pages of any size
  const MappedFile mapped(file, caller);
  const std::span<const std::byte> bytes = mapped.bytes();
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (size_t at = 0; at < bytes.size(); at += piece) {
    const std::span<const std::byte> part = bytes.subspan(at, std::min(piece, bytes.size() - at));
    XXH3_128bits_update(&state, part.data(), part.size());
    ::madvise(const_cast<std::byte*>(part.data()), part.size(), MADV_DONTNEED);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  mapped.check_intact(caller);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string with_checksum(std::string_view object) {
  const bool lines = object.find('\n') != object.npos;
  std::string_view body = without_end(object, white);
  body = without_end(body.substr(0, body.size() - 1), white);  // without the last bracket
  return fmt::format("{}{}{}{}\"{}\"{}", body, lines ? ",\n  " : ",", checksum_key,
                     lines ? " " : "", checksum_of(body), lines ? "\n}" : "}");
}

ChecksumState checksum_state(std::string_view object) {
  std::string_view text = without_end(object, white);
  if (!drop(text, "}") || !drop(text, "\"") || text.size() < digits) return ChecksumState::none;
  const std::string_view found = text.substr(text.size() - digits);
  text.remove_suffix(digits);
  if (!drop(text, "\"") || !drop(text, checksum_key) || !drop(text, ","))
    return ChecksumState::none;
  return found == checksum_of(text) ? ChecksumState::right : ChecksumState::wrong;
}

void check_checksum(std::string_view object, const std::string& file, std::string_view caller) {
  if (checksum_state(object) == ChecksumState::wrong)
    fail(caller, {.argument = file,
                  .expected = "the text that its checksum belongs to",
                  .found = "another: the file is damaged, or was edited"});
}

void check_version(const json::Value& version, std::string_view text, const std::string& file,
                   std::string_view caller) {
  if (checksum_state(text) == ChecksumState::right && version.integer(0, INT32_MAX) != 1)
    throw VersionError(caller, {.argument = file,
                                .expected = "version 1 of its format",
                                .found = version.describe(),
                                .hint = "use the version of Binade that wrote it"});
  version.integer(1, 1);
}

}  // namespace binade::io
