#include "binade/train/run/continuation.h"

#include <algorithm>
#include <cstdint>
#include <system_error>
#include <utility>

#include "binade/base/json.h"
#include "binade/io/file.h"

namespace binade::train {
namespace {

constexpr int64_t max_generation_config = 1 << 20;
// Ids of the prompt's end: enough that not all are special tokens, which have no text.
constexpr size_t max_context = 16;

// The length of the longest end of `text` with which `stop` begins.
size_t overlap(std::string_view text, std::string_view stop) {
  size_t length = std::min(text.size(), stop.size());
  while (!stop.starts_with(text.substr(text.size() - length))) --length;
  return length;
}

}  // namespace

std::string StopText::add(std::string_view text) {
  if (stopped_) return {};
  pending_ += text;
  size_t first = std::string::npos, held = 0;
  for (const std::string& stop : stops_) {
    first = std::min(first, pending_.find(stop));
    held = std::max(held, overlap(pending_, stop));
  }
  stopped_ = first != std::string::npos;
  std::string shown = pending_.substr(0, stopped_ ? first : pending_.size() - held);
  pending_.erase(0, stopped_ ? pending_.size() : shown.size());
  return shown;
}

std::string StopText::finish() { return std::exchange(pending_, {}); }

std::string_view name(Finish finish) {
  constexpr std::string_view names[] = {"length", "eos", "stop", "interrupted"};
  return names[static_cast<size_t>(finish)];
}

ContinuedText::ContinuedText(const data::Tokenizer& tokenizer, std::span<const int64_t> prompt,
                             const ContinuationOptions& options,
                             std::function<void(std::string_view)> show)
    : tokenizer_(tokenizer), options_(options), show_(std::move(show)), stop_(options.stops) {
  if (options.is_answer) return;
  const auto tail = prompt.last(std::min(prompt.size(), max_context));
  ids_.assign(tail.begin(), tail.end());
  decoded_ = tokenizer.decode(ids_);
}

void ContinuedText::append(const std::string& text) {
  result_.text += text;
  if (!text.empty() && show_) show_(text);
}

bool ContinuedText::add(int64_t token) {
  ++result_.tokens;
  const auto& eos = options_.generate.eos;
  if (std::ranges::find(eos, token) != eos.end()) {
    result_.finish = Finish::eos;
    return false;
  }
  ids_.push_back(token);
  std::string whole = tokenizer_.decode(ids_);
  append(stop_.add(std::string_view(whole).substr(std::min(decoded_.size(), whole.size()))));
  decoded_ = std::move(whole);
  if (stop_.stopped()) result_.finish = Finish::stop;
  if (options_.interrupted != nullptr && options_.interrupted())
    result_.finish = Finish::interrupted;
  return result_.finish == Finish::length;
}

Continuation ContinuedText::finish() {
  append(stop_.finish());
  return std::move(result_);
}

Continuation continue_text(nn::LanguageModel& model, const data::Tokenizer& tokenizer,
                           const std::vector<int64_t>& prompt, const ContinuationOptions& options,
                           FunctionRef<void(std::string_view)> show) {
  ContinuedText text(tokenizer, prompt, options, show);
  generate(model, prompt, options.generate, [&](int64_t token) { return text.add(token); });
  return text.finish();
}

std::vector<int64_t> parse_eos_ids(std::string_view generation_config, const std::string& file,
                                   const nn::LanguageModelConfig& config) {
  const json::Document document =
      json::parse(generation_config, {.reader = "generate", .file = file, .offset = 0});
  const json::Value* eos = document.root().find("eos_token_id");
  if (eos == nullptr || eos->is_null()) return config.eos;
  constexpr int64_t max_id = INT32_MAX;
  const auto id = [](const json::Value& value) { return value.integer(-1, max_id); };
  std::vector<int64_t> ids;
  if (!eos->is_array()) {
    ids.push_back(id(*eos));  // -1, which no token has, stands for none
    return ids;
  }
  for (const json::Value& value : eos->array()) ids.push_back(id(value));
  return ids;
}

std::vector<int64_t> eos_ids(const std::filesystem::path& folder,
                             const nn::LanguageModelConfig& config) {
  const std::filesystem::path file = folder / "generation_config.json";
  if (std::error_code ignored; !std::filesystem::exists(file, ignored)) return config.eos;
  return parse_eos_ids(io::read_text(file, "generate", max_generation_config), file.string(),
                       config);
}

}  // namespace binade::train
