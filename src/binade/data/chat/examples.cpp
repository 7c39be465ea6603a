#include "binade/data/chat/examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/data/chat/jinja/from_json.h"
#include "binade/data/documents.h"
#include "binade/data/mixture.h"
#include "binade/data/spill_buffer.h"
#include "binade/data/unpack.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* example_reader = "data";

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// Appends a block of a file; false at its end.
bool read_block(Unpacker& file, std::string& text) {
  constexpr size_t block = 1 << 20;
  const size_t before = text.size();
  text.resize(before + block);
  text.resize(before + file.read(text.data() + before, block));
  return text.size() > before;
}

// Calls use(line, offset, file) for each line of a file that is not blank. Memory holds a block and
// a line.
template <class Use>
void for_each_line(const fs::path& path, Use&& use) {
  constexpr size_t max_line = 256 << 20;
  const auto file = open_unpacked(path);
  std::string text;
  int64_t offset = 0;  // of text
  for (bool ended = false; !ended;) {
    size_t searched = text.size();  // no line ends before
    while (!ended && text.size() - searched < byte_order_mark.size())
      ended = !read_block(*file, text);
    size_t begin = offset == 0 && text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
    for (size_t end; begin < text.size(); begin = end + 1) {
      end = text.find('\n', std::max(begin, searched));
      searched = 0;
      if (end == std::string::npos && !ended) break;
      end = std::min(end, text.size());
      const std::string_view line = std::string_view(text).substr(begin, end - begin);
      if (!is_blank(line)) use(line, offset + static_cast<int64_t>(begin), *file);
    }
    begin = std::min(begin, text.size());
    text.erase(0, begin);
    offset += static_cast<int64_t>(begin);
    if (text.size() > max_line)
      fail(example_reader, {.argument = fmt::format("{}, byte {}", path.string(), offset),
                            .expected = fmt::format("lines of at most {} bytes", max_line),
                            .found = "a longer one"});
  }
}

// The first line that is not blank, and its offset. A longer one than this is not an example.
struct FirstLine {
  std::string text;
  int64_t offset = 0;
};
std::optional<FirstLine> first_line(const fs::path& path) {
  constexpr size_t max_first_line = 64 << 20;
  const auto file = open_unpacked(path);
  std::string text;
  for (bool ended = false; !ended && text.size() < max_first_line;) {
    ended = !read_block(*file, text);
    size_t begin = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
    begin = std::min(text.find_first_not_of(" \t\r\n", begin), text.size());
    const size_t end = text.find('\n', begin);
    if (begin < text.size() && (ended || end != std::string::npos))
      return FirstLine{text.substr(begin, end - begin), static_cast<int64_t>(begin)};
  }
  return {};
}

// Either messages, or a prompt and its completion.
struct Example {
  std::vector<Message> messages = {};
  jinja::Value tools = jinja::Value(nullptr);  // that the assistant may call, for the template
  std::string prompt = {}, completion = {};
};

void add_messages(const json::Value& list, std::vector<Message>& messages) {
  for (const json::Value& one : list.array()) messages.push_back(message_of(one));
}

Example parse_example(const json::Value& root) {
  Example example;
  if (const json::Value* messages = root.find("messages")) {
    add_messages(*messages, example.messages);
  } else if (const json::Value* prompt = root.find("prompt")) {
    const json::Value& completion = root.at("completion");
    if (prompt->is_array()) {
      add_messages(*prompt, example.messages);
      add_messages(completion, example.messages);
    } else {
      example.prompt = prompt->string();
      example.completion = completion.string();
    }
  } else if (const json::Value* instruction = root.find("instruction")) {
    const json::Value* input = root.find("input");
    std::string question = instruction->string();
    if (input != nullptr && !input->string().empty()) question += "\n\n" + input->string();
    example.messages = {{"user", question}, {"assistant", root.at("output").string()}};
  } else {
    root.refuse("an example: messages, prompt and completion, or instruction and output",
                root.describe());
  }
  if (const json::Value* tools = root.find("tools")) example.tools = jinja::value_of(*tools);
  return example;
}

// The tokens of an example.
struct Encoded {
  std::vector<int64_t> ids;
  std::vector<bool> is_target;
};

int64_t common_prefix(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

class Encoder {
 public:
  explicit Encoder(const Source& source) : source_(source) {
    if (source.eos && *source.eos >= source.vocab)
      fail(example_reader,
           {.argument = "eos_token_id of the model",
            .expected = "an id below its vocabulary of " + std::to_string(source.vocab),
            .found = std::to_string(*source.eos)});
  }

  Encoded encode(const Example& example, const std::string& where) const {
    return example.messages.empty() ? completion(example) : conversation(example, where);
  }

 private:
  std::vector<int64_t> ids_of(std::string_view text) const {
    if (source_.tokenizer != nullptr) return source_.tokenizer->encode(text);
    return {reinterpret_cast<const unsigned char*>(text.data()),
            reinterpret_cast<const unsigned char*>(text.data()) + text.size()};
  }

  std::vector<int64_t> ids_between(std::string_view text, size_t begin, size_t end) const {
    if (source_.tokenizer != nullptr) return source_.tokenizer->encode_between(text, begin, end);
    return ids_of(text.substr(begin, end - begin));
  }
  bool may_cut(std::string_view text, size_t at) const {
    return source_.tokenizer == nullptr || source_.tokenizer->may_cut(text, at);
  }

  // A token may reach over the boundary between a prompt and its answer; it counts as the answer's.
  Encoded conversation(const Example& example, const std::string& where) const {
    if (!source_.chat)
      fail(example_reader,
           {.argument = where,
            .expected = "a chat template in the model's folder, to write messages with",
            .found = "none",
            .hint = "give --chat chatml, llama3, gemma or mistral to 'binade train', or lines "
                    "with prompt and completion"});
    return tokens_of(render(*source_.chat, example.messages, where, example.tools));
  }

  // In pieces that end where an answer ends, so that the time grows with the length of the text
  // only. If the text may not be cut there, a piece has several answers, up to a bound.
  Encoded tokens_of(const RenderedChat& chat) const {
    constexpr size_t max_answers = 64, max_bytes = 8192;
    const std::string_view text = chat.text;
    Encoded encoded;
    size_t begin = 0, first = 0;  // of the piece, and its first answer
    for (size_t i = 0; i < chat.answers.size(); ++i) {
      const size_t end = chat.answers[i].second;
      const bool is_long = i - first >= max_answers && end - begin >= max_bytes;
      if (!is_long && !may_cut(text, end)) continue;
      append_piece(chat, {begin, end}, std::span(chat.answers).subspan(first, i + 1 - first),
                   encoded);
      begin = end;
      first = i + 1;
    }
    append_piece(chat, {begin, text.size()}, std::span(chat.answers).subspan(first), encoded);
    return encoded;
  }

  void append_piece(const RenderedChat& chat, std::pair<size_t, size_t> piece,
                    std::span<const std::pair<size_t, size_t>> answers, Encoded& encoded) const {
    const std::vector<int64_t> ids = ids_between(chat.text, piece.first, piece.second);
    const auto tokens_up_to = [&](size_t end) {
      if (end == piece.second) return static_cast<int64_t>(ids.size());
      return common_prefix(ids, ids_between(chat.text, piece.first, end));
    };
    const auto before = static_cast<int64_t>(encoded.ids.size());
    encoded.ids.insert(encoded.ids.end(), ids.begin(), ids.end());
    encoded.is_target.resize(encoded.ids.size());
    const auto target = encoded.is_target.begin() + before;
    for (const auto& [begin, end] : answers)
      std::fill(target + tokens_up_to(begin), target + tokens_up_to(end), true);
  }

  Encoded completion(const Example& example) const {
    const TemplateIds around =
        source_.tokenizer != nullptr ? source_.tokenizer->template_ids() : TemplateIds{};
    const std::vector<int64_t> ids = ids_of(example.prompt + example.completion);
    const int64_t boundary = common_prefix(ids, ids_of(example.prompt));
    Encoded encoded{around.before, {}};
    encoded.ids.insert(encoded.ids.end(), ids.begin(), ids.end());
    std::vector<int64_t> after = around.after;
    if (after.empty() && source_.eos) after = {*source_.eos};
    encoded.ids.insert(encoded.ids.end(), after.begin(), after.end());
    encoded.is_target.resize(encoded.ids.size());
    const auto first = static_cast<int64_t>(around.before.size()) + boundary;
    std::fill(encoded.is_target.begin() + first, encoded.is_target.end(), true);
    return encoded;
  }

  const Source& source_;
};

// All documents of a file.
struct Collected {
  Tokens ids = {}, is_target = {};
  std::vector<int64_t> ends = {};

  // Documents [begin, end) of these.
  Tokens part(int64_t begin, int64_t end, const Documents::Options& options) const {
    const int64_t from = begin == 0 ? 0 : ends[static_cast<size_t>(begin) - 1];
    std::vector<int64_t> own;
    for (int64_t i = begin; i < end; ++i) own.push_back(ends[static_cast<size_t>(i)] - from);
    const Tokens tokens = ids.slice(from, from + own.back());
    return tokens.with_documents(std::make_shared<const Documents>(
        tokens, is_target.slice(from, from + own.back()), own, options));
  }
};

// Documents as they are collected: beyond some size in files in the source's cache.
class Collector {
 public:
  explicit Collector(const Source& source)
      : ids_(source.vocab <= narrow_ids ? 2 : 4, source.cache), is_target_(1, source.cache) {}

  void add(const Encoded& encoded, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      ids_.add(static_cast<uint32_t>(encoded.ids[i]));
      is_target_.add(encoded.is_target[i] ? 1 : 0);
    }
    ends_.push_back(ids_.size());
  }
  Collected finish() { return {ids_.finish(), is_target_.finish(), std::move(ends_)}; }

 private:
  static constexpr int64_t narrow_ids = 65536;
  SpillBuffer ids_, is_target_;
  std::vector<int64_t> ends_;
};

// The examples of a file, and how many of its lines were changed or left out.
struct Examples {
  Collected documents = {};
  int64_t lines = 0, without_target = 0, cut = 0;
  bool has_messages = false, lacks_context = false;

  std::vector<std::string> warnings(const Source& source) const {
    std::vector<std::string> texts;
    if (cut > 0)
      texts.push_back(
          fmt::format("{} of {} examples are longer than the context of {} and were cut",
                      grouped(cut), grouped(lines), source.context));
    if (without_target > 0)
      texts.push_back(
          fmt::format("{} of {} examples have no answer within the context of {} and were left out",
                      grouped(without_target), grouped(lines), source.context));
    const bool has_tokens = source.tokenizer != nullptr && !source.tokenizer->model().empty();
    if (has_messages && has_tokens) {
      const std::string end = source.chat->answer_end;
      const size_t count = source.tokenizer->encode(end).size();
      if (end.empty())
        texts.push_back(
            "answers have no end in the chat template; perhaps tokenizer_config.json has no "
            "eos_token");
      else if (count != 1)
        texts.push_back(fmt::format(
            "the tokenizer has no token for {}, which ends an answer in the chat format: it is "
            "written as {} tokens",
            json::in_quotes(end), count));
    }
    return texts;
  }
};

Examples collect_examples(const Source& source) {
  const Encoder encoder(source);
  Collector documents(source);
  Examples all;
  const auto add = [&](std::string_view line, int64_t offset, const Unpacker& file) {
    const json::Document document = json::parse(line, {example_reader, source.where, offset});
    const std::string where = fmt::format("{}, example {}", source.where, ++all.lines);
    const Example example = parse_example(document.root());
    all.has_messages |= !example.messages.empty();
    const Encoded encoded = encoder.encode(example, where);
    const size_t count = std::min(encoded.ids.size(), static_cast<size_t>(source.context) + 1);
    const auto begin = encoded.is_target.begin(), end = begin + static_cast<int64_t>(count);
    if (count < 2 || std::find(begin + 1, end, true) == end) {
      ++all.without_target;
      all.lacks_context |= count < encoded.ids.size();
      return;
    }
    all.cut += count < encoded.ids.size() ? 1 : 0;
    documents.add(encoded, count);
    if (source.progress)
      source.progress(static_cast<size_t>(file.consumed()), static_cast<size_t>(file.size()));
  };
  for_each_line(source.where, add);
  all.documents = documents.finish();
  return all;
}

void require_examples(const Source& source, const Examples& all, int64_t least,
                      const char* expected) {
  const int64_t count = std::ssize(all.documents.ends);
  if (count >= least) return;
  fail(example_reader, {.argument = source.where,
                        .expected = expected,
                        .found = fmt::format("{} of {} lines", count, all.lines),
                        .hint = all.lacks_context ? "a longer --context has room for more" : ""});
}

}  // namespace

bool is_example_file(const std::string& where) {
  std::error_code ignored;  // reading reports what is wrong
  const fs::path path = where, name = is_packed(path) ? path.stem() : path;
  if (name.extension() != ".jsonl" || !fs::is_regular_file(path, ignored)) return false;
  const auto line = first_line(path);
  if (!line) return false;
  const json::Document document = json::parse(line->text, {example_reader, where, line->offset});
  const json::Value& root = document.root();
  return root.is_object() && root.find("text") == nullptr &&
         (root.find("messages") != nullptr || root.find("prompt") != nullptr ||
          root.find("instruction") != nullptr);
}

bool has_examples(const std::string& data) {
  return std::ranges::any_of(mixture_of(data),
                             [](const MixturePart& part) { return is_example_file(part.where); });
}

Split read_examples(const Source& source) {
  const Examples all = collect_examples(source);
  require_examples(source, all, 2,
                   "at least 2 examples with an answer: one to train on and one to validate on");
  const int64_t count = std::ssize(all.documents.ends);
  const auto held_out = std::max<int64_t>(
      1, static_cast<int64_t>(std::floor(source.validation * static_cast<double>(count))));
  const Documents::Options options{.context = source.context, .packed = source.packed};
  return {all.documents.part(0, count - held_out, options),
          all.documents.part(count - held_out, count, options), all.warnings(source)};
}

Tokens read_all_examples(const Source& source) {
  const Examples all = collect_examples(source);
  require_examples(source, all, 1, "at least 1 example with an answer");
  return all.documents.part(0, std::ssize(all.documents.ends),
                            {.context = source.context, .packed = source.packed});
}

}  // namespace binade::data
