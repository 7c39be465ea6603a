#include "binade/data/tokenizer.h"

#include <algorithm>

#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/data/sentencepiece.h"
#include "binade/data/tokenizer_json/from_gguf.h"
#include "binade/data/tokenizer_json/tokenizer_json.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

class Bytes final : public Tokenizer {
 public:
  int64_t vocab() const override { return byte_vocabulary; }
  std::string decode(std::span<const int64_t> ids) const override {
    std::string text;
    for (const int64_t id : ids) text += id >= 0 && id < vocab() ? static_cast<char>(id) : '?';
    return text;
  }
  std::string_view model() const override { return {}; }

 protected:
  size_t part_end(std::string_view text, size_t begin) const override {
    constexpr size_t part_bytes = 64 << 10;
    return std::min(text.size(), begin + part_bytes);
  }
  std::vector<int32_t> encode_part(std::string_view text, size_t begin, size_t end) const override {
    std::vector<int32_t> ids;
    for (const char c : text.substr(begin, end - begin))
      ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
};

std::unique_ptr<const Tokenizer> open_file(const fs::path& path) {
  if (path.filename() == "vocab.json") return open_vocab_and_merges(path);
  if (path.extension() == ".json") return open_tokenizer_json(path);
  if (io::gguf::is_gguf(path)) return open_gguf_tokenizer(path);
  return open_sentencepiece(path);
}

}  // namespace

std::vector<int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int64_t> all;
  encode_in_parts(text, [&](std::span<const int32_t> ids, size_t) {
    all.insert(all.end(), ids.begin(), ids.end());
  });
  return all;
}

std::vector<int64_t> Tokenizer::encode_between(std::string_view text, size_t begin,
                                               size_t end) const {
  std::vector<int64_t> all;
  encode_range(text.substr(0, end), begin, end, [&](std::span<const int32_t> ids, size_t) {
    all.insert(all.end(), ids.begin(), ids.end());
  });
  return all;
}

bool Tokenizer::may_cut(std::string_view text, size_t at) const {
  constexpr size_t context = 128;  // bytes, longer than nearly all words
  const size_t begin = at - std::min(at, context), end = std::min(text.size(), at + context);
  if (begin == at || at == end) return true;
  const std::vector<int32_t> whole = encode_part(text, begin, end);
  std::vector<int32_t> halves = encode_part(text, begin, at);
  const std::vector<int32_t> second = encode_part(text, at, end);
  halves.insert(halves.end(), second.begin(), second.end());
  return whole == halves;
}

std::vector<int64_t> Tokenizer::encode_prompt(std::string_view text) const {
  std::vector<int64_t> ids = template_ids().before;
  for (const int64_t id : encode(text)) ids.push_back(id);
  return ids;
}

void Tokenizer::encode_in_parts(std::string_view text, Sink sink) const {
  encode_range(text, 0, text.size(), sink);
}

void Tokenizer::encode_stream(More more, Sink sink) const {
  // Enough parts of about 64 kB for two rounds of all threads.
  const size_t wanted = lookahead + (static_cast<size_t>(threads()) << 20);
  std::string text;
  size_t begin = 0, dropped = 0;
  for (bool ended = false;;) {
    while (!ended && text.size() - begin < wanted) ended = !more(text);
    if (begin == text.size()) return;
    const size_t until = ended ? text.size() : text.size() - lookahead;
    begin = encode_range(text, begin, until, [&](std::span<const int32_t> ids, size_t end) {
      sink(ids, dropped + end);
    });
    const size_t unneeded = begin - std::min(begin, lookback);
    text.erase(0, unneeded);
    begin -= unneeded;
    dropped += unneeded;
  }
}

size_t Tokenizer::encode_range(std::string_view text, size_t begin, size_t until, Sink sink) const {
  constexpr size_t parts_per_thread = 8;  // so that threads seldom wait for the slowest
  struct Part {
    size_t begin, end;
    std::vector<int32_t> ids = {};
  };
  const size_t at_a_time = parts_per_thread * static_cast<size_t>(threads());
  std::vector<Part> parts;
  while (begin < until) {
    parts.clear();
    while (begin < until && parts.size() < at_a_time) {
      parts.push_back({begin, part_end(text, begin)});
      begin = parts.back().end;
    }
    parallel_for(static_cast<int64_t>(parts.size()), 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        Part& part = parts[static_cast<size_t>(i)];
        part.ids = encode_part(text, part.begin, part.end);
      }
    });
    for (const Part& part : parts) sink(part.ids, part.end);
  }
  return begin;
}

int token_width(const Tokenizer& tokenizer) {
  if (tokenizer.model().empty()) return 1;
  return tokenizer.vocab() <= 65536 ? 2 : 4;
}

// A SentencePiece model cannot begin with a brace, which would start a group.
const char* tokenizer_file(std::string_view model) {
  return model.starts_with('{') ? "tokenizer.json" : "tokenizer.model";
}

std::optional<fs::path> find_tokenizer(const fs::path& folder) {
  if (io::gguf::is_gguf(folder))
    return has_tokenizer(io::gguf::File(folder)) ? std::optional(folder) : std::nullopt;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json"}) {
    std::error_code ignored;  // opening it reports what is wrong
    if (fs::exists(folder / name, ignored)) return folder / name;
  }
  return std::nullopt;
}

std::unique_ptr<const Tokenizer> open_tokenizer(const std::string& name) {
  if (name == byte_tokenizer) return std::make_unique<Bytes>();
  std::error_code error;
  if (!fs::exists(name, error)) {
    fail("tokenizer",
         {.argument = name,
          .expected = "bytes, or the path of a SentencePiece model, a tokenizer.json or a "
                      "folder with one",
          .found = error ? error.message() : "no file of that name"});
  }
  if (!fs::is_directory(name, error)) return open_file(name);
  const auto file = find_tokenizer(name);
  if (!file) {
    fail("tokenizer", {.argument = name,
                       .expected = "tokenizer.json, tokenizer.model, or vocab.json and merges.txt "
                                   "in that folder",
                       .found = "none of them"});
  }
  return open_file(*file);
}

std::unique_ptr<const Tokenizer> tokenizer_of(const fs::path& folder, int64_t vocab) {
  if (const auto file = find_tokenizer(folder)) {
    auto tokenizer = open_file(*file);
    if (tokenizer->vocab() > vocab) {
      fail("tokenizer", {.argument = file->string(),
                         .expected = "at most the model's " + std::to_string(vocab) + " pieces",
                         .found = std::to_string(tokenizer->vocab())});
    }
    return tokenizer;
  }
  if (vocab != byte_vocabulary) {
    fail("tokenizer", {.argument = (folder / "tokenizer.json").string(),
                       .expected = "a tokenizer: the model has " + std::to_string(vocab) +
                                   " tokens, not the 256 of bytes",
                       .found = "none"});
  }
  return std::make_unique<Bytes>();
}

}  // namespace binade::data
