#include "binade/data/chat/examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/data/documents.h"
#include "binade/io/file.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* example_reader = "data";
constexpr int64_t max_example_bytes = int64_t{8} << 30;

// Calls use(line, offset) for each line that is not blank, until it returns false.
template <class Use>
void for_each_line(std::string_view text, Use&& use) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const bool blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    if (!blank && !use(line, static_cast<int64_t>(begin))) return;
    begin = end + 1;
  }
}

// Either messages, or a prompt and its completion.
struct Example {
  std::vector<Message> messages = {};
  std::string prompt = {}, completion = {};
};

void add_messages(const json::Value& list, std::vector<Message>& messages) {
  for (const json::Value& one : list.array())
    messages.push_back({one.at("role").string(), one.at("content").string()});
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
  explicit Encoder(const Source& source) : source_(source) {}

  Encoded encode(const Example& example, const std::string& where) const {
    return example.messages.empty() ? completion(example) : conversation(example, where);
  }

 private:
  std::vector<int64_t> ids_of(std::string_view text) const {
    if (source_.tokenizer != nullptr) return source_.tokenizer->encode(text);
    return {reinterpret_cast<const unsigned char*>(text.data()),
            reinterpret_cast<const unsigned char*>(text.data()) + text.size()};
  }

  // A token may reach over the boundary between a prompt and its answer; it counts as the answer's.
  Encoded conversation(const Example& example, const std::string& where) const {
    if (!source_.chat)
      fail(example_reader,
           {.argument = where,
            .expected = "a chat template in the model's folder, to write messages with",
            .found = "none",
            .hint = "give --chat chatml, llama3, gemma or mistral, or lines with prompt "
                    "and completion"});
    const RenderedChat chat = render(*source_.chat, example.messages, where);
    const std::string_view text = chat.text;
    Encoded encoded{ids_of(text), {}};
    encoded.is_target.resize(encoded.ids.size());
    for (const auto& [begin, end] : chat.answers) {
      const int64_t first = common_prefix(encoded.ids, ids_of(text.substr(0, begin))),
                    last = common_prefix(encoded.ids, ids_of(text.substr(0, end)));
      std::fill(encoded.is_target.begin() + first, encoded.is_target.begin() + last, true);
    }
    return encoded;
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

}  // namespace

bool is_example_file(const std::string& where) {
  std::error_code ignored;  // reading reports what is wrong
  if (fs::path(where).extension() != ".jsonl" || !fs::is_regular_file(where, ignored)) return false;
  bool found = false;
  // Mapped: a text of any size may have this extension, and the first line tells.
  const io::MappedFile file(where, example_reader);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  for_each_line(text, [&](std::string_view line, int64_t offset) {
    const json::Document document = json::parse(line, {example_reader, where, offset});
    const json::Value& root = document.root();
    found = root.is_object() && root.find("text") == nullptr &&
            (root.find("messages") != nullptr || root.find("prompt") != nullptr ||
             root.find("instruction") != nullptr);
    return false;
  });
  file.check_intact(example_reader);
  return found;
}

Split read_examples(const Source& source) {
  const std::string text = io::read_text(source.where, example_reader, max_example_bytes);
  const Encoder encoder(source);
  Collected all;
  int64_t lines = 0, without_target = 0, cut = 0;
  for_each_line(text, [&](std::string_view line, int64_t offset) {
    const json::Document document = json::parse(line, {example_reader, source.where, offset});
    const std::string where = fmt::format("{}, example {}", source.where, ++lines);
    const Encoded encoded = encoder.encode(parse_example(document.root()), where);
    const size_t count = std::min(encoded.ids.size(), static_cast<size_t>(source.context) + 1);
    const auto begin = encoded.is_target.begin();
    if (count < 2 || std::find(begin + 1, begin + static_cast<int64_t>(count), true) ==
                         begin + static_cast<int64_t>(count)) {
      ++without_target;
      return true;
    }
    cut += count < encoded.ids.size() ? 1 : 0;
    all.add(encoded, count);
    if (source.progress) source.progress(static_cast<size_t>(offset) + line.size(), text.size());
    return true;
  });
  const auto count = static_cast<int64_t>(all.ends.size());
  if (count < 2)
    fail(example_reader,
         {.argument = source.where,
          .expected = "at least 2 examples with an answer: one to train on and one to "
                      "validate on",
          .found = fmt::format("{} of {} lines", count, lines),
          .hint = without_target > 0 ? "a longer --context has room for more" : ""});
  const auto held_out = std::max<int64_t>(
      1, static_cast<int64_t>(std::floor(source.validation * static_cast<double>(count))));
  const Documents::Options options{.context = source.context, .packed = source.packed};
  Split split{all.part(0, count - held_out, options), all.part(count - held_out, count, options)};
  if (cut > 0)
    split.warnings.push_back(
        fmt::format("{} of {} examples are longer than the context of {} "
                    "and were cut",
                    grouped(cut), grouped(lines), source.context));
  if (without_target > 0)
    split.warnings.push_back(
        fmt::format("{} of {} examples have no answer within the context of {} and were left out",
                    grouped(without_target), grouped(lines), source.context));
  return split;
}

}  // namespace binade::data
