#include "binade/serve/request.h"

#include <cstdlib>
#include <string_view>

#include "binade/base/json.h"
#include "fuzz/mutate_json.h"

namespace {

using binade::serve::RequestError;

constexpr int64_t most_texts = 16;

// A body is read, or refused with an error whose own text is JSON.
template <class F>
void read(F parse) {
  try {
    parse();
  } catch (const RequestError& error) {
    if (error.status != 400) std::abort();
    binade::json::parse(error.json(), {"fuzz", "error"});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  read([&] {
    const auto request = binade::serve::parse_completion(body, most_texts);
    if (request.prompts.empty() || request.text.count < 1 ||
        static_cast<int64_t>(request.prompts.size()) * request.text.count > most_texts)
      std::abort();
    binade::train::check_options(request.text.sampling);
  });
  read([&] {
    const auto request = binade::serve::parse_chat(body, most_texts);
    if (request.messages.empty() || request.text.count > most_texts) std::abort();
  });
  read([&] { binade::serve::parse_tokenize(body); });
  read([&] { binade::serve::parse_detokenize(body); });
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return binade::fuzz::mutate_json(data, size, max_size, seed,
                                   {"prompt",
                                    "messages",
                                    "role",
                                    "content",
                                    "n",
                                    "max_tokens",
                                    "temperature",
                                    "top_p",
                                    "stop",
                                    "logprobs",
                                    "top_logprobs",
                                    "echo",
                                    "stream",
                                    "stream_options",
                                    "seed",
                                    "tokens",
                                    "tools",
                                    "logit_bias",
                                    "response_format",
                                    "best_of"});
}
