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
#include "binade/data/chat/encoder.h"
#include "binade/data/chat/jinja/from_json.h"
#include "binade/data/chat/pairs.h"
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

struct Line {
  std::string_view text;
  int64_t offset;  // in the file
  int64_t number;  // counted from 1
};

// Calls use(line, file) for each line of a file that is not blank. Memory holds a block and a line.
template <class Use>
void for_each_line(const fs::path& path, Use&& use) {
  constexpr size_t max_line = 256 << 20;
  const auto file = open_unpacked(path);
  std::string text;
  int64_t offset = 0, number = 0;  // of text; of the last line
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
      ++number;
      if (!is_blank(line)) use(Line{line, offset + static_cast<int64_t>(begin), number}, *file);
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

void add_messages(const json::Value& list, std::vector<Message>& messages) {
  for (const json::Value& one : list.array()) messages.push_back(message_of(one));
}

Example parse_example(const json::Value& root) {
  if (is_pair(root))
    root.refuse("an example", "a pair of answers", "train on pairs with --objective dpo");
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

// The examples or pairs of a file, and how many of its lines were changed or left out.
struct Examples {
  Collected documents = {};
  int64_t lines = 0, without_target = 0, cut = 0, alike = 0;
  bool has_messages = false, lacks_context = false;

  std::vector<std::string> warnings(const Source& source) const {
    const char* unit = source.pairs ? "pairs" : "examples";
    std::vector<std::string> texts;
    if (cut > 0)
      texts.push_back(fmt::format("{} of {} {} are longer than the context of {} and were cut",
                                  grouped(cut), grouped(lines), unit, source.context));
    if (without_target > 0)
      texts.push_back(
          fmt::format("{} of {} {} have no answer within the context of {} and were left out",
                      grouped(without_target), grouped(lines), unit, source.context));
    if (alike > 0)
      texts.push_back(fmt::format(
          "{} of {} pairs have the same answer twice within the context of {} and were left out",
          grouped(alike), grouped(lines), source.context));
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

// Reads the lines of a file.
class LineReader {
 public:
  explicit LineReader(const Source& source)
      : source_(source), encoder_(source), documents_(source) {}

  Examples read() {
    for_each_line(source_.where, [this](const Line& line, const Unpacker& file) {
      const json::Document document =
          json::parse(line.text, {example_reader, source_.where, line.offset});
      ++all_.lines;
      source_.pairs ? add_pair(document.root(), line.number) : add_example(document.root());
      if (source_.progress)
        source_.progress(static_cast<size_t>(file.consumed()), static_cast<size_t>(file.size()));
    });
    all_.documents = documents_.finish();
    return std::move(all_);
  }

 private:
  // Tokens of a document within the context, and whether an answer is among them.
  struct Part {
    size_t count;
    bool has_target;
  };
  Part part_of(const Encoded& encoded) const {
    const size_t count = std::min(encoded.ids.size(), static_cast<size_t>(source_.context) + 1);
    const auto begin = encoded.is_target.begin(), end = begin + static_cast<int64_t>(count);
    return {count, count >= 2 && std::find(begin + 1, end, true) != end};
  }

  // Whether all parts of an example have an answer; counts one that has not.
  bool have_targets(std::initializer_list<Part> parts, bool is_cut) {
    if (std::ranges::all_of(parts, [](const Part& part) { return part.has_target; })) return true;
    ++all_.without_target;
    all_.lacks_context |= is_cut;
    return false;
  }

  void add_example(const json::Value& root) {
    const Example example = parse_example(root);
    all_.has_messages |= !example.messages.empty();
    const Encoded encoded =
        encoder_.encode(example, fmt::format("{}, example {}", source_.where, all_.lines));
    const Part part = part_of(encoded);
    const bool is_cut = part.count < encoded.ids.size();
    if (!have_targets({part}, is_cut)) return;
    all_.cut += is_cut ? 1 : 0;
    documents_.add(encoded, part.count);
  }

  void add_pair(const json::Value& root, int64_t line) {
    const std::string where = fmt::format("{}, line {}", source_.where, line);
    const Pair pair = parse_pair(root, where);
    all_.has_messages |= !pair.chosen.messages.empty();
    const Encoded chosen = encoder_.encode(pair.chosen, where),
                  rejected = encoder_.encode(pair.rejected, where);
    const Part better = part_of(chosen), worse = part_of(rejected);
    const bool is_cut = better.count < chosen.ids.size() || worse.count < rejected.ids.size();
    if (!have_targets({better, worse}, is_cut)) return;
    if (std::ranges::equal(std::span(chosen.ids).first(better.count),
                           std::span(rejected.ids).first(worse.count))) {
      ++all_.alike;
      return;
    }
    all_.cut += is_cut ? 1 : 0;
    documents_.add(chosen, better.count);
    documents_.add(rejected, worse.count);
  }

  const Source& source_;
  Encoder encoder_;
  Collector documents_;
  Examples all_;
};

// The number of examples, or of pairs.
int64_t count_of(const Source& source, const Examples& all) {
  return std::ssize(all.documents.ends) / (source.pairs ? 2 : 1);
}

Documents::Options document_options(const Source& source) {
  return {.context = source.context, .packed = source.packed, .paired = source.pairs};
}

void require_examples(const Source& source, const Examples& all, int64_t least,
                      const std::string& expected) {
  const int64_t count = count_of(source, all);
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
          root.find("instruction") != nullptr || is_pair(root));
}

bool has_examples(const std::string& data) {
  return std::ranges::any_of(mixture_of(data),
                             [](const MixturePart& part) { return is_example_file(part.where); });
}

Split read_examples(const Source& source) {
  const Examples all = LineReader(source).read();
  require_examples(
      source, all, 2,
      fmt::format("at least 2 {}: one to train on and one to validate on",
                  source.pairs ? "pairs of different answers" : "examples with an answer"));
  const int64_t count = count_of(source, all), each = source.pairs ? 2 : 1;
  const auto held_out = std::max<int64_t>(
      1, static_cast<int64_t>(std::floor(source.validation * static_cast<double>(count))));
  const Documents::Options options = document_options(source);
  return {all.documents.part(0, (count - held_out) * each, options),
          all.documents.part((count - held_out) * each, count * each, options),
          all.warnings(source)};
}

Tokens read_all_examples(const Source& source) {
  const Examples all = LineReader(source).read();
  require_examples(source, all, 1, "at least 1 example with an answer");
  return all.documents.part(0, std::ssize(all.documents.ends), document_options(source));
}

}  // namespace binade::data
