#include "binade/train/continuation.h"

#include <algorithm>
#include <cstdint>
#include <system_error>
#include <utility>

#include "binade/base/json.h"
#include "binade/io/file.h"

namespace binade::train {
namespace {

constexpr int64_t max_generation_config = 1 << 20;

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

Continuation continue_text(nn::LanguageModel& model, const data::Tokenizer& tokenizer,
                           const std::vector<int64_t>& prompt, const ContinuationOptions& options,
                           FunctionRef<void(std::string_view)> show) {
  Continuation result;
  StopText stop(options.stops);
  const auto add = [&](const std::string& text) {
    result.text += text;
    if (!text.empty()) show(text);
  };
  // A token's text may depend on earlier tokens, so all are decoded each time and only the new part
  // is added.
  std::vector<int64_t> ids;
  std::string decoded;
  const auto& eos = options.generate.eos;
  generate(model, prompt, options.generate, [&](int64_t token) {
    ++result.tokens;
    if (std::ranges::find(eos, token) != eos.end()) {
      result.finish = Finish::eos;
      return false;
    }
    ids.push_back(token);
    std::string whole = tokenizer.decode(ids);
    add(stop.add(std::string_view(whole).substr(std::min(decoded.size(), whole.size()))));
    decoded = std::move(whole);
    if (stop.stopped()) result.finish = Finish::stop;
    if (options.interrupted != nullptr && options.interrupted())
      result.finish = Finish::interrupted;
    return result.finish == Finish::length;
  });
  add(stop.finish());
  return result;
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
