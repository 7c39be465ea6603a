#include "binade/train/generate.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <deque>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>

#include "binade/backend/capabilities.h"
#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/terminal.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/cli/values.h"
#include "binade/data/chat/chat_template.h"
#include "binade/data/text_reader.h"
#include "binade/data/token_text.h"
#include "binade/data/tokenizer.h"
#include "binade/data/tokenizer_json/unicode.h"
#include "binade/io/file.h"
#include "binade/train/config/choices.h"
#include "binade/train/conversation.h"
#include "binade/train/run/continuation.h"
#include "binade/train/streams.h"

namespace binade::cli {
namespace {

constexpr int64_t max_prompt = int64_t{1} << 28;
constexpr int64_t max_count = 1'000'000;
constexpr int64_t max_streams = 4096;
constexpr int64_t max_top = 100;
// Texts at once, unless told otherwise, where a text does not depend on its company: there results
// are the same for every batch.
constexpr int64_t many_streams = 16;

struct GenerateArguments {
  std::string folder;
  std::optional<std::string> prompt;
  std::string prompt_file, prompts;
  int64_t count = 1, streams = 0;
  bool interactive = false, chat = false, json = false;
  std::optional<int64_t> top = {};  // print log-probabilities, and those of this many others
  std::optional<data::ChatFormat> format = {};  // none: that of the model's template
  train::ContinuationOptions options;
  std::shared_ptr<ModelArguments> model = std::make_shared<ModelArguments>();
};

// Replaces \n, \t and \\ in a stop string, since few know how to type a line break in a shell.
std::string unescaped(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 1 < text.size();
    const char next = escape ? text[i + 1] : '\0';
    if (next == 'n' || next == 't' || next == '\\') {
      result += next == 'n' ? '\n' : next == 't' ? '\t' : '\\';
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

// The text of a file, or of standard input.
std::string prompt_text(const std::string& file) {
  if (file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  return io::read_text(file, "generate", max_prompt);
}

// The prompts of a file: its lines, or the member "prompt" of each line of a .jsonl file. Empty
// lines are skipped.
std::vector<std::string> prompts_in(const std::string& file) {
  const std::string text = prompt_text(file);
  std::vector<std::string> prompts;
  for (size_t begin = text.starts_with(data::byte_order_mark) ? data::byte_order_mark.size() : 0;
       begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && file.ends_with(".jsonl")) {
      const json::Document document = json::parse(
          line, {.reader = "generate", .file = file, .offset = static_cast<int64_t>(begin)});
      prompts.push_back(document.root().at("prompt").string());
    } else if (!line.empty()) {
      prompts.push_back(std::move(line));
    }
    begin = end + 1;
  }
  if (prompts.empty())
    fail("generate", {.argument = "--prompts " + file,
                      .expected = "at least one line",
                      .found = "none that is not empty"});
  return prompts;
}

std::vector<std::string> prompts_of(const GenerateArguments& arguments) {
  if (!arguments.prompts.empty()) return prompts_in(arguments.prompts);
  if (arguments.prompt_file.empty()) return {arguments.prompt.value_or("\n")};
  return {prompt_text(arguments.prompt_file)};
}

void show(std::string_view text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

std::string utf8(std::string_view bytes) {
  std::string storage;
  return std::string(data::valid_utf8(bytes, storage));
}

// A loaded model that continues texts as the command line asks.
class Generator {
 public:
  explicit Generator(const GenerateArguments& arguments)
      : arguments_(arguments),
        folder_(chosen_model(arguments.folder, "generate")),
        model_(arguments.model->load(folder_, "generate")),
        tokenizer_(data::tokenizer_of(folder_, model_->config().vocab)),
        options_(arguments.options),
        precision_(arguments.model->scope()) {
    train::check_options(options_.generate);
    options_.generate.eos = train::eos_ids(folder_, model_->config());
    if (arguments.chat) start_conversation();
  }

  void set_interrupted(bool (*interrupted)()) { options_.interrupted = interrupted; }

  // Prints the prompt and its continuation, with --chat only the answer, as text while it is
  // generated or as a line of JSON.
  train::Finish print(const std::string& prompt, int64_t sample) {
    options_.generate.sample = sample;
    const bool json = arguments_.json;
    train::TextStream stream;
    if (!json && !conversation_) show(stream.add(prompt));
    const train::Continuation made = train::continue_text(*model_, *tokenizer_, ids_of(prompt),
                                                          options_, [&](std::string_view part) {
                                                            if (!json) show(stream.add(part));
                                                          });
    if (conversation_) conversation_->add_answer(utf8(made.text));
    show(json ? line_of({.prompt = prompt, .sample = sample, .made = made})
              : stream.finish() + "\n");
    return made.finish;
  }

  // Prints each prompt's texts in order, several of which are generated at once.
  void print_many(const std::vector<std::string>& prompts, int64_t count,
                  const std::function<std::string(size_t)>& title) {
    struct Text {
      std::string prompt;
      int64_t sample;
      std::optional<int64_t> before;  // see CompleteText
      train::ContinuedText text;
      std::optional<train::Continuation> made = {};
      std::vector<train::ScoredToken> scores = {};
    };
    std::deque<Text> texts;  // that are not printed yet
    size_t printed = 0, started = 0;
    const auto print_ready = [&] {
      for (; !texts.empty() && texts.front().made; texts.pop_front()) {
        const Text& one = texts.front();
        show(title(printed++) +
             whole_text({one.prompt, one.sample, *one.made, one.before, one.scores}));
      }
    };
    const auto next = [&]() -> std::optional<train::StreamRequest> {
      const size_t prompt = started / static_cast<size_t>(count);
      if (prompt == prompts.size()) return {};
      const auto sample = static_cast<int64_t>(started++ % static_cast<size_t>(count));
      train::StreamRequest request{.prompt = ids_of(prompts[prompt]), .options = options_.generate};
      Text* text =
          &texts.emplace_back(Text{prompts[prompt], sample, id_before(request.prompt),
                                   train::ContinuedText(*tokenizer_, request.prompt, options_)});
      request.options.sample = sample;
      request.scores = {.generated = arguments_.top.has_value(), .top = arguments_.top.value_or(0)};
      request.on_token = [this, text](const train::ScoredToken& token) {
        if (arguments_.top) text->scores.push_back(token);
        return text->text.add(token.id);
      };
      request.on_end = [text, &print_ready] {
        text->made = text->text.finish();
        print_ready();
      };
      return request;
    };
    train::generate_streams(*model_, streams(), next);
  }

  int64_t streams() const {
    if (arguments_.streams > 0) return arguments_.streams;
    const bool is_invariant = backend::capabilities(arguments_.model->where()).is_batch_invariant &&
                              !arguments_.model->precision.depends_on_batch();
    return is_invariant ? many_streams : 1;
  }

 private:
  struct CompleteText {
    const std::string& prompt;
    int64_t sample;
    const train::Continuation& made;
    std::optional<int64_t> before = {};  // the id before the first token, if its text goes on
    std::span<const train::ScoredToken> scores = {};
  };

  // Of the first token that follows a prompt.
  std::optional<int64_t> id_before(const std::vector<int64_t>& prompt) const {
    if (options_.is_answer || prompt.empty()) return {};
    return prompt.back();
  }

  // What print() shows of a text once it is complete.
  std::string whole_text(const CompleteText& text) const {
    if (arguments_.json) return line_of(text);
    return train::printable((conversation_ ? "" : text.prompt) + text.made.text) + "\n" +
           table_of(text);
  }

  // A line for each token: its log-probability and text.
  std::string table_of(const CompleteText& text) const {
    std::string table;
    std::optional<int64_t> before = text.before;
    for (const train::ScoredToken& token : text.scores) {
      table += fmt::format("{:12.6f}  {}\n", token.log_prob,
                           json::in_quotes(data::token_text(*tokenizer_, before, token.id)));
      before = token.id;
    }
    return table;
  }

  std::vector<int64_t> ids_of(const std::string& prompt) {
    if (!conversation_) return tokenizer_->encode_prompt(prompt.empty() ? "\n" : prompt);
    if (!arguments_.interactive) conversation_ = opening_;  // prompts are independent
    return conversation_->ask(prompt);
  }

  void start_conversation() {
    const auto chat = data::read_chat_template(folder_, arguments_.format);
    if (!chat)
      fail("generate", {.argument = "--chat",
                        .expected = "a model with a chat template",
                        .found = "none in " + folder_.string(),
                        .hint = "give --chat-format chatml, llama3, gemma or mistral"});
    opening_ = conversation_ = train::Conversation(*chat, *tokenizer_);
    train::end_with_answer(*chat, *tokenizer_, options_);
  }

  std::string line_of(const CompleteText& text) const {
    json::Writer out;
    out.begin_object().key("prompt").value(utf8(text.prompt)).key("sample").value(text.sample);
    out.key("text").value(utf8(text.made.text)).key("tokens").value(text.made.tokens);
    out.key("finish").value(name(text.made.finish));
    if (arguments_.top) write_scores(text, out.key("logprobs"));
    return out.end_object().text() + "\n";
  }

  void write_scores(const CompleteText& text, json::Writer& out) const {
    std::optional<int64_t> before = text.before;
    const auto write = [&](int64_t id, float log_prob) {
      out.begin_object().key("id").value(id);
      out.key("token").value(utf8(data::token_text(*tokenizer_, before, id)));
      out.key("logprob").value(train::finite(log_prob));
    };
    out.begin_array();
    for (const train::ScoredToken& token : text.scores) {
      write(token.id, token.log_prob);
      out.key("top").begin_array();
      for (const auto& [id, log_prob] : token.top) {
        write(id, log_prob);
        out.end_object();
      }
      out.end_array().end_object();
      before = token.id;
    }
    out.end_array();
  }

  const GenerateArguments& arguments_;
  std::filesystem::path folder_;
  std::unique_ptr<nn::LanguageModel> model_;
  std::unique_ptr<const data::Tokenizer> tokenizer_;
  train::ContinuationOptions options_;
  std::optional<train::Conversation> opening_, conversation_;
  train::InferenceScope precision_;
};

void print_all(const GenerateArguments& arguments, Generator& generator) {
  const std::vector<std::string> prompts = prompts_of(arguments);
  const size_t all = prompts.size() * static_cast<size_t>(arguments.count);
  const bool color = terminal::has_color(stdout);
  const auto title = [&](size_t index) {
    if (all == 1 || arguments.json) return std::string();
    return terminal::styled(fmt::format("--- {} of {}\n", index + 1, all), terminal::Style::dim,
                            color);
  };
  if (arguments.top || (all > 1 && generator.streams() > 1))
    return generator.print_many(prompts, arguments.count, title);
  size_t at = 0;
  for (const std::string& prompt : prompts) {
    for (int64_t sample = 0; sample < arguments.count; ++sample) {
      show(title(at++));
      generator.print(prompt, sample);
    }
  }
}

std::atomic<bool> interrupt_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

// Continues, or in a conversation answers, one line of standard input after another. Ctrl-C ends a
// text that is being generated; while a line is awaited it ends the program, as the end of the
// input does.
void converse(const GenerateArguments& arguments, Generator& generator) {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupt_requested = true; };  // no SA_RESTART: a read ends, too
  ::sigaction(SIGINT, &action, nullptr);
  generator.set_interrupted([] { return interrupt_requested.load(); });
  const bool terminal = terminal::is_terminal(stdin) && terminal::is_terminal(stdout);
  if (terminal) show("Ctrl-C ends a text, Ctrl-D the program.\n");
  for (std::string line;;) {
    if (terminal) show("> ");
    if (!std::getline(std::cin, line)) break;
    if (line.ends_with('\r')) line.pop_back();
    for (int64_t sample = 0; sample < arguments.count; ++sample) {
      if (generator.print(line, sample) == train::Finish::interrupted) break;
    }
    interrupt_requested = false;
  }
  if (terminal) show("\n");
  if (interrupt_requested) throw CLI::RuntimeError(128 + SIGINT);
}

void run(const GenerateArguments& arguments) {
  if (arguments.interactive && arguments.chat && arguments.count > 1)
    fail("generate", {.argument = "--count",
                      .expected = "1 in a conversation, which has one answer to each message",
                      .found = std::to_string(arguments.count)});
  const bool has_prompt =
      arguments.prompt || !arguments.prompt_file.empty() || !arguments.prompts.empty();
  if (arguments.chat && !arguments.interactive && !has_prompt)
    fail("generate", {.argument = "--chat",
                      .expected = "a message to answer",
                      .found = "no prompt",
                      .hint = "give --prompt TEXT, --prompts FILE or --interactive"});
  Generator generator(arguments);
  if (arguments.interactive) return converse(arguments, generator);
  print_all(arguments, generator);
}

void add_prompts(CLI::App& command, GenerateArguments& arguments) {
  auto* prompt = command.add_option("--prompt", arguments.prompt, "Text to continue");
  auto* file = command
                   .add_option("--prompt-file", arguments.prompt_file,
                               "File with the text to continue; -: standard input")
                   ->excludes(prompt);
  auto* prompts = command
                      .add_option("--prompts", arguments.prompts,
                                  "File with a prompt per line, or .jsonl with {\"prompt\": "
                                  "...} per line; -: lines of standard input")
                      ->excludes(prompt)
                      ->excludes(file);
  command.add_option("--count", arguments.count, "Texts per prompt")
      ->transform(whole_number(1, max_count))
      ->capture_default_str();
  command
      .add_option(
          "--streams", arguments.streams,
          fmt::format("Texts generated at once; default: {} on a CPU, 1 on a GPU", many_streams))
      ->transform(whole_number(1, max_streams));
  command
      .add_flag("--interactive", arguments.interactive,
                "Continue each line of standard input until it ends")
      ->excludes(prompt)
      ->excludes(file)
      ->excludes(prompts);
  command.add_flag(
      "--chat", arguments.chat,
      "Answer prompts as messages of a user, in the model's chat format; with --interactive "
      "as one conversation");
  command
      .add_option_function<std::string>(
          "--chat-format",
          [&arguments](const std::string& text) {
            arguments.chat = true;
            arguments.format = *train::find_named(train::chat_names, text);
          },
          "--chat in this format instead of the model's own")
      ->check(one_of({"chatml", "llama3", "gemma", "mistral"}));
}

void add_sampling(CLI::App& command, train::GenerateOptions& options) {
  command
      .add_option("--tokens", options.tokens,
                  "Tokens to generate at most; the model's EOS ends a text, too")
      ->transform(whole_number())
      ->capture_default_str();
  command
      .add_option("--temperature", options.temperature,
                  "Sampling temperature; 0: always the most likely token")
      ->check(real_number())
      ->capture_default_str();
  command.add_option("--top-k", options.top_k, "Sample from the K most likely tokens; 0: all")
      ->transform(whole_number())
      ->capture_default_str();
  command
      .add_option("--top-p", options.top_p,
                  "Sample from the most likely tokens with a total probability of P")
      ->check(real_number())
      ->capture_default_str();
  command
      .add_option("--repetition-penalty", options.repetition_penalty,
                  "Above 1: makes tokens that occurred less likely")
      ->check(real_number())
      ->capture_default_str();
  command
      .add_option("--seed", options.seed, "Seed of the sampling; the same seed gives the same text")
      ->transform(whole_number())
      ->capture_default_str();
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text with a trained model");
  auto arguments = std::make_shared<GenerateArguments>();
  command->add_option("FOLDER", arguments->folder, "A model, a checkpoint, or the folder of a run")
      ->required();
  add_prompts(*command, *arguments);
  add_sampling(*command, arguments->options.generate);
  command
      ->add_option_function<std::vector<std::string>>(
          "--stop",
          [arguments](const std::vector<std::string>& stops) {
            for (const std::string& stop : stops) {
              if (stop.empty()) throw CLI::ValidationError("--stop", "expected a text, found none");
              arguments->options.stops.push_back(unescaped(stop));
            }
          },
          "End a text before this one; \\n is a line break. May be given several times")
      ->allow_extra_args(false);
  add_model_options(*command, arguments->model);
  command->add_flag("--json", arguments->json, "Print a line of JSON for each text");
  command
      ->add_option("--logprobs", arguments->top,
                   "Print the log-probability of every token; with --json also those of the N most "
                   "likely in its place")
      ->transform(whole_number(0, max_top))
      ->excludes("--interactive");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace binade::cli
