#include "binade/data/unpack.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include "binade/base/error.h"
#include "binade/io/file.h"

namespace binade::data {
namespace {

// Text seldom shrinks to less than a twentieth; a file made to fill a disk to a thousandth or less.
constexpr int64_t max_ratio = 200, unchecked_bytes = 64 << 20;

class Plain : public Unpacker {
 public:
  explicit Plain(const std::filesystem::path& path) : file_(path, "data") {}

  size_t read(char* out, size_t count) override {
    count = std::min(count, file_.bytes().size() - at_);
    if (count > 0) std::memcpy(out, file_.bytes().data() + at_, count);
    at_ += count;
    file_.check_intact("data");
    return count;
  }
  int64_t consumed() const override { return static_cast<int64_t>(at_); }
  int64_t size() const override { return static_cast<int64_t>(file_.bytes().size()); }

 private:
  io::MappedFile file_;
  size_t at_ = 0;
};

// What gzip and Zstandard share: the mapped input, the limit, the end.
class Packed : public Unpacker {
 public:
  Packed(std::filesystem::path path, const char* format)
      : path_(std::move(path)), format_(format), file_(path_, "data") {}

  size_t read(char* out, size_t count) override {
    size_t made = 0;
    while (made == 0 && !ended_ && count > 0) {
      const size_t before = at_;
      made = unpack(out, count);
      file_.check_intact("data");
      if (made == 0 && !ended_ && at_ == before) refuse("the end of the data", "a truncated file");
    }
    made_ += static_cast<int64_t>(made);
    if (made_ > unchecked_bytes && made_ / max_ratio > size())
      refuse("at most " + std::to_string(max_ratio) + " times its size unpacked", "more");
    return made;
  }
  int64_t consumed() const override { return static_cast<int64_t>(at_); }
  int64_t size() const override { return static_cast<int64_t>(file_.bytes().size()); }

 protected:
  // Unpacks once from rest() and calls consume(); may give nothing.
  virtual size_t unpack(char* out, size_t count) = 0;

  std::span<const std::byte> rest() const { return file_.bytes().subspan(at_); }
  void consume(size_t count) { at_ += count; }
  void set_ended() { ended_ = true; }

  [[noreturn]] void refuse(const std::string& expected, std::string found) const {
    fail("data", {.argument = path_.string() + ", byte " + std::to_string(at_),
                  .expected = expected + " of a " + format_ + " file",
                  .found = std::move(found)});
  }

 private:
  std::filesystem::path path_;
  const char* format_;
  io::MappedFile file_;
  size_t at_ = 0;
  int64_t made_ = 0;
  bool ended_ = false;
};

class Gzip final : public Packed {
 public:
  explicit Gzip(const std::filesystem::path& path) : Packed(path, "gzip") {
    constexpr int gzip_header = 16;  // added to the window's bits: no zlib or raw streams
    if (inflateInit2(&stream_, MAX_WBITS + gzip_header) != Z_OK) refuse("memory", "too little");
  }
  ~Gzip() override { inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

 protected:
  size_t unpack(char* out, size_t count) override {
    constexpr size_t limit = std::numeric_limits<uInt>::max();
    const auto available = static_cast<uInt>(std::min(rest().size(), limit));
    const auto space = static_cast<uInt>(std::min(count, limit));
    // zlib does not write to its input.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(rest().data()));
    stream_.avail_in = available;
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = space;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    consume(available - stream_.avail_in);
    if (status == Z_STREAM_END) {
      // A file may have several members, one after another.
      rest().empty() ? set_ended() : static_cast<void>(inflateReset(&stream_));
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      refuse("valid data", stream_.msg != nullptr ? stream_.msg : "an error");
    }
    return space - stream_.avail_out;
  }

 private:
  z_stream stream_ = {};
};

class Zstandard final : public Packed {
 public:
  explicit Zstandard(const std::filesystem::path& path)
      : Packed(path, "Zstandard"), stream_(ZSTD_createDStream(), ZSTD_freeDStream) {
    if (stream_ == nullptr) refuse("memory", "too little");
  }

 protected:
  size_t unpack(char* out, size_t count) override {
    ZSTD_inBuffer in{rest().data(), rest().size(), 0};
    ZSTD_outBuffer made{out, count, 0};
    const size_t status = ZSTD_decompressStream(stream_.get(), &made, &in);
    consume(in.pos);
    if (ZSTD_isError(status) != 0) refuse("valid data", ZSTD_getErrorName(status));
    // A file may have several frames, one after another.
    if (status == 0 && rest().empty()) set_ended();
    return made.pos;
  }

 private:
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream_;
};

}  // namespace

bool is_packed(const std::filesystem::path& path) {
  return path.extension() == ".gz" || path.extension() == ".zst";
}

std::unique_ptr<Unpacker> open_unpacked(const std::filesystem::path& path) {
  if (path.extension() == ".gz") return std::make_unique<Gzip>(path);
  if (path.extension() == ".zst") return std::make_unique<Zstandard>(path);
  return std::make_unique<Plain>(path);
}

}  // namespace binade::data
