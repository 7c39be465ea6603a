#include "binade/data/token_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "binade/base/error.h"
#include "binade/data/corpus.h"
#include "binade/data/text_reader.h"
#include "binade/io/file.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

using Hash = std::array<uint64_t, 2>;

class Hasher {
 public:
  Hasher() : state_(XXH3_createState(), XXH3_freeState) { XXH3_128bits_reset(state_.get()); }

  void add(std::span<const std::byte> bytes) {
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  Hash digest() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return {hash.high64, hash.low64};
  }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

// For its lifetime, other processes wait to write to the folder: the ranks of a run would all
// encode the same text. Without effect on file systems that cannot lock a folder.
class CacheLock {
 public:
  explicit CacheLock(const fs::path& folder)
      : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    while (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~CacheLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  CacheLock(const CacheLock&) = delete;
  CacheLock& operator=(const CacheLock&) = delete;

 private:
  int descriptor_;
};

// The last bytes of a cache file; the tokens before it begin at byte 0, so they are aligned.
struct Trailer {
  std::array<char, 8> magic = {'B', 'I', 'N', 'A', 'D', 'E', 'T', '1'};
  int64_t width = 0, count = 0;
  Hash key = {}, tokens = {};

  bool operator==(const Trailer&) const = default;
};
static_assert(sizeof(Trailer) == 8 + 2 * 8 + 4 * 8);

// A hash of everything that the tokens depend on.
Hash key_of(const TextReader& reader, const Tokenizer& tokenizer) {
  Hasher hasher;
  const std::string_view model = tokenizer.model();
  hasher.add(fmt::format("tokenizer {}\n", model.size()));
  hasher.add(model);
  for (const fs::path& path : reader.files()) {
    const io::MappedFile file(path, "data");
    // How a file is read depends on its extensions, not on its name.
    hasher.add(fmt::format("{} {} {}\n", path.extension().string(),
                           path.stem().extension().string(), file.bytes().size()));
    hasher.add(file.bytes());
    file.check_intact("data");
  }
  return hasher.digest();
}

// The tokens of an intact file with this key.
std::optional<Tokens> open_cache(const fs::path& path, const Hash& key) {
  if (std::error_code ignored; !fs::is_regular_file(path, ignored)) return {};
  const auto file = std::make_shared<const io::MappedFile>(path, "data");
  const auto bytes = file->bytes();
  if (bytes.size() < sizeof(Trailer)) return {};
  Trailer found;
  const auto tokens = bytes.first(bytes.size() - sizeof(Trailer));
  std::memcpy(&found, bytes.data() + tokens.size(), sizeof(Trailer));
  Hasher hasher;
  hasher.add(tokens);
  const auto size = static_cast<int64_t>(tokens.size());
  // A quotient: the product of a damaged count may overflow.
  const bool is_intact = found.magic == Trailer{}.magic && found.key == key &&
                         (found.width == 1 || found.width == 2 || found.width == 4) &&
                         found.count > 0 && size % found.width == 0 &&
                         size / found.width == found.count && found.tokens == hasher.digest();
  if (!is_intact) return {};
  return Tokens(file, tokens.data(), static_cast<int>(found.width), found.count);
}

void write_cache(const fs::path& path, TextReader& reader, const Tokenizer& tokenizer,
                 const Hash& key, const std::function<void(size_t, size_t)>& progress) {
  io::AtomicFile file(path, "data");
  Hasher hasher;
  Trailer trailer{.width = token_width(tokenizer), .key = key};
  std::string bytes;
  encode_in_template(reader, tokenizer, [&](std::span<const int32_t> ids, size_t) {
    bytes.clear();
    append_ids(bytes, ids, static_cast<int>(trailer.width));
    file.append(bytes);
    hasher.add(bytes);
    trailer.count += std::ssize(ids);
    if (progress)
      progress(static_cast<size_t>(reader.consumed()), static_cast<size_t>(reader.total()));
  });
  trailer.tokens = hasher.digest();
  file.append(std::as_bytes(std::span(&trailer, 1)));
  file.commit();
}

}  // namespace

Tokens cached_tokens(const std::string& where, const Tokenizer& tokenizer, const TokenCache& cache,
                     const std::function<void(size_t, size_t)>& progress) {
  TextReader reader(where);
  const Hash key = key_of(reader, tokenizer);
  const fs::path path = cache.folder / fmt::format("{:016x}{:016x}.tokens", key[0], key[1]);
  if (const auto tokens = open_cache(path, key)) return *tokens;
  std::error_code error;
  fs::create_directories(cache.folder, error);
  if (error)
    fail("data", {.argument = cache.folder.string(),
                  .expected = "a folder for encoded texts",
                  .found = error.message()});
  const CacheLock lock(cache.folder);
  if (const auto tokens = open_cache(path, key)) return *tokens;  // written in the meantime
  write_cache(path, reader, tokenizer, key, progress);
  const auto tokens = open_cache(path, key);
  if (!tokens)
    fail("data", {.argument = path.string(),
                  .expected = "the tokens that were written",
                  .found = "others",
                  .hint = "do not change texts while they are read, and check the disk"});
  return *tokens;
}

}  // namespace binade::data
