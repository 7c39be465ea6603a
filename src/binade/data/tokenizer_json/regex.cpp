#define PCRE2_CODE_UNIT_WIDTH 8
#include "binade/data/tokenizer_json/regex.h"

#include <pcre2.h>

#include <new>

#include "binade/base/error.h"
#include "binade/base/json.h"

namespace binade::data {
namespace {

constexpr const char* regex_op = "tokenizer";
// Split patterns take some hundred steps; a runaway match ends after about 10 ms.
constexpr uint32_t max_match_steps = 1'000'000;
constexpr size_t max_stack = 1 << 20;

template <class T>
T* required(T* made) {
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

// PCRE2's working memory of one thread, for any pattern.
class MatchState {
 public:
  MatchState()
      : data_(required(pcre2_match_data_create(1, nullptr))),
        context_(required(pcre2_match_context_create(nullptr))),
        stack_(pcre2_jit_stack_create(32 << 10, max_stack, nullptr)) {
    pcre2_set_match_limit(context_, max_match_steps);
    // If there is none, the machine's stack is used.
    if (stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  ~MatchState() {
    pcre2_jit_stack_free(stack_);
    pcre2_match_context_free(context_);
    pcre2_match_data_free(data_);
  }
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;

  pcre2_match_data* data() const { return data_; }
  pcre2_match_context* context() const { return context_; }
  Span span() const {
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data_);
    return {ends[0], ends[1]};
  }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_;
};

std::string message_of(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct Regex::Code {
  std::string pattern;  // as it was given
  pcre2_code* code = nullptr;
  bool compiled = false;  // to machine code

  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view pattern, const std::string& where) {
  const std::string translated = translated_pattern(pattern, where);
  auto code = std::make_unique<Code>();
  code->pattern = pattern;
  const std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(
      required(pcre2_compile_context_create(nullptr)), pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code->code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE,
      &error, &offset, context.get());
  if (code->code == nullptr) {
    fail(regex_op, {.argument = where,
                    .expected = "a regular expression that PCRE2 reads",
                    .found = json::in_quotes(pattern) + ": " + message_of(error)});
  }
  code->compiled = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  code_ = std::move(code);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::optional<Span> Regex::find(std::string_view text, size_t from) const {
  thread_local const MatchState state;
  // No UTF check: one at each call would make splitting quadratic.
  const auto run = [&](auto* match, uint32_t options) {
    return match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                 options | PCRE2_NO_UTF_CHECK, state.data(), state.context());
  };
  int result = code_->compiled ? run(pcre2_jit_match, 0) : run(pcre2_match, 0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = run(pcre2_match, PCRE2_NO_JIT);
  if (result >= 0) return state.span();
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  fail(regex_op, {.argument = "the pattern " + json::in_quotes(code_->pattern),
                  .expected = "a match in at most " + std::to_string(max_match_steps) + " steps",
                  .found = message_of(result)});
}

}  // namespace binade::data
