#include "binade/data/corpus.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "binade/base/error.h"
#include "binade/data/chat/examples.h"
#include "binade/data/documents.h"
#include "binade/data/mixture.h"
#include "binade/data/text_check.h"
#include "binade/data/token_cache.h"
#include "binade/data/token_file.h"
#include "binade/io/file.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

// The largest text that is held in memory.
constexpr int64_t max_text_bytes_in_memory = int64_t{8} << 30;

std::string whole_text(TextReader& reader, const Progress& progress = {}) {
  std::string text;
  while (reader.read(text)) {
    if (progress)
      progress(static_cast<size_t>(reader.consumed()), static_cast<size_t>(reader.total()));
    if (std::cmp_greater(text.size(), max_text_bytes_in_memory))
      fail("data",
           {.argument = reader.where(),
            .expected = "at most " + std::to_string(max_text_bytes_in_memory) + " bytes of text",
            .found = "more",
            .hint = "give a part of it"});
  }
  return text;
}

// The token file at `where`, or those in that folder in the order of their names.
std::vector<fs::path> shards_of(const fs::path& where) {
  std::error_code error;
  if (!fs::is_directory(where, error)) {
    return is_token_file(where) ? std::vector<fs::path>{where} : std::vector<fs::path>{};
  }
  std::vector<fs::path> shards;
  for (fs::directory_iterator at(where, error), end; !error && at != end; at.increment(error)) {
    if (is_token_file(at->path()) && !is_hidden(at->path())) shards.push_back(at->path());
  }
  std::sort(shards.begin(), shards.end());
  return shards;
}

}  // namespace

std::string read_text(const std::string& where) {
  TextReader reader(where);
  return whole_text(reader);
}

void encode_in_template(TextReader& reader, const Tokenizer& tokenizer, Tokenizer::Sink sink) {
  size_t done = 0;
  const auto add_all = [&](const std::vector<int64_t>& ids) {
    const std::vector<int32_t> narrow(ids.begin(), ids.end());
    if (!narrow.empty()) sink(narrow, done);
  };
  const TemplateIds around = tokenizer.template_ids();
  add_all(around.before);
  tokenizer.encode_stream([&](std::string& text) { return reader.read(text); },
                          [&](std::span<const int32_t> ids, size_t bytes) {
                            done = bytes;
                            sink(ids, done);
                          });
  add_all(around.after);
}

Tokens tokenize(TextReader& reader, const Tokenizer& tokenizer, const Progress& progress) {
  if (tokenizer.model().empty()) return Tokens::of_bytes(whole_text(reader, progress));
  const int width = token_width(tokenizer);
  std::string bytes;
  encode_in_template(reader, tokenizer, [&](std::span<const int32_t> ids, size_t) {
    append_ids(bytes, ids, width);
    if (progress)
      progress(static_cast<size_t>(reader.consumed()), static_cast<size_t>(reader.total()));
  });
  return Tokens::of_ids(std::move(bytes), width);
}

namespace {

// A text by its bytes needs no tokens of its own: a large file is mapped.
Tokens mapped_bytes(const fs::path& path) {
  auto file = std::make_shared<const io::MappedFile>(path, "data");
  const auto bytes = file->bytes();
  return {std::move(file), bytes.data(), 1, static_cast<int64_t>(bytes.size())};
}

bool is_by_bytes(const Tokenizer* tokenizer) {
  return tokenizer == nullptr || tokenizer->model().empty();
}

Tokens text_tokens(const Source& source, const std::string& where) {
  static const std::unique_ptr<const Tokenizer> bytes = open_tokenizer(std::string(byte_tokenizer));
  const Tokenizer& tokenizer = source.tokenizer != nullptr ? *source.tokenizer : *bytes;
  TextReader reader(where);
  if (source.cache.empty() || reader.total() < source.cache_from || reader.files().empty())
    return tokenize(reader, tokenizer, source.progress);
  std::error_code ignored;
  const bool is_plain = !fs::is_directory(where, ignored) && !is_packed(where) &&
                        reader.files()[0].extension() != ".jsonl";
  if (tokenizer.model().empty() && is_plain) return mapped_bytes(where);
  return cached_tokens(where, tokenizer, {source.cache}, source.progress);
}

// The split of one source of a mixture.
Split split_one(const Source& source, const std::string& where) {
  std::vector<Tokens> train, validation;
  for (const fs::path& shard : shards_of(where)) {
    const bool held_out = shard.filename().string().find("val") != std::string::npos;
    (held_out ? validation : train)
        .push_back(read_token_file(shard, source.vocab, source.batch * source.context + 1));
  }
  if (!train.empty() && !validation.empty())
    return {Tokens::joined(train), Tokens::joined(validation)};
  train.insert(train.end(), validation.begin(), validation.end());
  std::vector<std::string> warnings;
  if (train.empty()) warnings = check_text(where, is_by_bytes(source.tokenizer));
  const Tokens all = train.empty() ? text_tokens(source, where) : Tokens::joined(train);
  Split parts = split(all, source.validation, source.context, where);
  parts.warnings.insert(parts.warnings.end(), warnings.begin(), warnings.end());
  return parts;
}

Split split_part(const Source& source, const std::string& where) {
  const bool has_lines = is_example_file(where);
  if (source.pairs && !has_lines)
    fail("data", {.argument = "--data " + where,
                  .expected = "a .jsonl file of pairs: prompt, chosen and rejected",
                  .found = "other data",
                  .hint = "--objective next-token trains on it"});
  if (!has_lines) return split_one(source, where);
  Source examples = source;
  examples.where = where;
  return read_examples(examples);
}

// Text among examples: consecutive documents that fill the context, of which all tokens are
// targets.
Tokens in_documents(const Tokens& tokens, const Source& source) {
  if (tokens.documents()) return tokens;
  std::vector<int64_t> ends;
  for (int64_t end = 0;
       tokens.size() - end > 1;)  // a single token has nothing to be predicted from
    ends.push_back(end = std::min(end + source.context + 1, tokens.size()));
  const Tokens whole = tokens.slice(0, ends.back());
  const auto all = Tokens::of_bytes(std::string(static_cast<size_t>(whole.size()), '\1'));
  return whole.with_documents(std::make_shared<const Documents>(
      whole, all, ends, Documents::Options{.context = source.context, .packed = source.packed}));
}

Tokens mixed(const std::vector<Tokens>& parts, const std::vector<double>& weights) {
  const Tokens all = Tokens::mixed(parts, weights);
  std::vector<std::shared_ptr<const Documents>> documents;
  for (const Tokens& part : parts) documents.push_back(part.documents());
  if (documents[0] == nullptr) return all;
  return all.with_documents(
      std::make_shared<const Documents>(Documents::mixed(documents, weights)));
}

}  // namespace

Tokens read_tokens(const std::string& where, int64_t vocab, const Tokenizer* tokenizer) {
  std::vector<Tokens> runs;
  for (const MixturePart& part : mixture_of(where)) {
    const std::vector<fs::path> shards = shards_of(part.where);
    for (const fs::path& shard : shards) runs.push_back(read_token_file(shard, vocab));
    if (!shards.empty()) continue;
    check_text(part.where, is_by_bytes(tokenizer));
    runs.push_back(text_tokens({.tokenizer = tokenizer}, part.where));
  }
  return Tokens::joined(runs);
}

Split read_split(const Source& source) {
  const std::vector<MixturePart> parts = mixture_of(source.where);
  const bool examples = has_examples(source.where);
  std::vector<Tokens> train, validation;
  std::vector<double> weights;
  Split all;
  for (const MixturePart& part : parts) {
    Split one = split_part(source, part.where);
    if (examples) {
      one.train = in_documents(one.train, source);
      one.validation = in_documents(one.validation, source);
    }
    if (parts.size() == 1) return one;
    train.push_back(one.train);
    validation.push_back(one.validation);
    weights.push_back(part.weight);
    all.warnings.insert(all.warnings.end(), one.warnings.begin(), one.warnings.end());
  }
  all.train = mixed(train, weights);
  all.validation = mixed(validation, weights);
  return all;
}

}  // namespace binade::data
