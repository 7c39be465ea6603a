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
#include "binade/data/unpack.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* example_reader = "data";
constexpr int64_t max_example_bytes = int64_t{8} << 30;

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// Calls use(line, offset) for each line that is not blank.
template <class Use>
void for_each_line(std::string_view text, Use&& use) {
  size_t begin = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (!is_blank(line)) use(line, static_cast<int64_t>(begin));
    begin = end + 1;
  }
}

// Appends a block of a file; false at its end.
bool read_block(Unpacker& file, std::string& text) {
  constexpr size_t block = 1 << 20;
  const size_t before = text.size();
  text.resize(before + block);
  text.resize(before + file.read(text.data() + before, block));
  return text.size() > before;
}

std::string whole_file(const fs::path& path) {
  const auto file = open_unpacked(path);
  std::string text;
  while (read_block(*file, text)) {
    if (std::cmp_greater(text.size(), max_example_bytes))
      fail(example_reader,
           {.argument = path.string(),
            .expected = "at most " + std::to_string(max_example_bytes) + " bytes of examples",
            .found = "more",
            .hint = "give a part of it"});
  }
  return text;
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

// Documents as they are collected.
struct Collected {
  std::string ids, is_target;  // four bytes and one byte each
  std::vector<int64_t> ends = {};

  void add(const Encoded& encoded, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const auto id = static_cast<uint32_t>(encoded.ids[i]);
      ids.append(reinterpret_cast<const char*>(&id), sizeof id);
      is_target += encoded.is_target[i] ? '\1' : '\0';
    }
    ends.push_back(static_cast<int64_t>(is_target.size()));
  }

  // Documents [begin, end) of these.
  Tokens part(int64_t begin, int64_t end, const Documents::Options& options) const {
    const int64_t from = begin == 0 ? 0 : ends[static_cast<size_t>(begin) - 1];
    std::vector<int64_t> own;
    for (int64_t i = begin; i < end; ++i) own.push_back(ends[static_cast<size_t>(i)] - from);
    const auto text = [&](const std::string& all, int64_t width) {
      return all.substr(static_cast<size_t>(from * width), static_cast<size_t>(own.back() * width));
    };
    const Tokens tokens = Tokens::of_ids(text(ids, 4), 4);
    return tokens.with_documents(std::make_shared<const Documents>(
        tokens, Tokens::of_ids(text(is_target, 1), 1), own, options));
  }
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
  const std::string text = whole_file(source.where);
  const Encoder encoder(source);
  Examples all;
  for_each_line(text, [&](std::string_view line, int64_t offset) {
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
    all.documents.add(encoded, count);
    if (source.progress) source.progress(static_cast<size_t>(offset) + line.size(), text.size());
  });
  return all;
}

void require_examples(const Source& source, const Examples& all, int64_t least,
                      const char* expected) {
  const auto count = static_cast<int64_t>(all.documents.ends.size());
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
  const auto count = static_cast<int64_t>(all.documents.ends.size());
  const auto held_out = std::max<int64_t>(
      1, static_cast<int64_t>(std::floor(source.validation * static_cast<double>(count))));
  const Documents::Options options{.context = source.context, .packed = source.packed};
  return {all.documents.part(0, count - held_out, options),
          all.documents.part(count - held_out, count, options), all.warnings(source)};
}

Tokens read_all_examples(const Source& source) {
  const Examples all = collect_examples(source);
  require_examples(source, all, 1, "at least 1 example with an answer");
  return all.documents.part(0, static_cast<int64_t>(all.documents.ends.size()),
                            {.context = source.context, .packed = source.packed});
}

}  // namespace binade::data
