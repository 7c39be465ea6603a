#define PCRE2_CODE_UNIT_WIDTH 8
#include "binade/data/tokenizer_json/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <new>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/data/tokenizer_json/unicode.h"

namespace binade::data {
namespace {

constexpr const char* regex_op = "tokenizer";
// PCRE2 limits the steps of a match at one position, and does not say how many it took. So each
// position gets few steps, which suffice nearly always; where they do not, it gets more and more of
// the budget, up to about 10 ms.
constexpr uint32_t few_steps = 256, max_match_steps = 1'000'000;
// What a position costs that few steps suffice for.
constexpr size_t position_cost = 16;
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
  // The context with a limit of steps at each position.
  pcre2_match_context* context(uint32_t steps) const {
    pcre2_set_match_limit(context_, steps);
    return context_;
  }
  Span span() const {
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data_);
    return {ends[0], ends[1]};
  }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_;
};

const MatchState& thread_state() {
  // Memory that PCRE2 writes during a match; tokenizers are shared by threads.
  thread_local const MatchState state;
  return state;
}

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

std::optional<Span> Regex::find(std::string_view text, size_t from, WorkBudget& budget) const {
  while (true) {
    // No UTF check: one at each call would make splitting quadratic.
    const auto run = [&](auto* match) {
      return match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                   PCRE2_NO_UTF_CHECK, thread_state().data(), thread_state().context(few_steps));
    };
    const int result = code_->compiled ? run(pcre2_jit_match) : run(pcre2_match);
    if (result >= 0 || result == PCRE2_ERROR_NOMATCH) {
      const auto found = result >= 0 ? std::optional(thread_state().span()) : std::nullopt;
      const size_t positions = (found ? std::max(found->begin, from) : text.size()) - from + 1;
      budget.spend(positions * position_cost, [&] { return description(); });
      return found;
    }
    if (result != PCRE2_ERROR_MATCHLIMIT && result != PCRE2_ERROR_JIT_STACKLIMIT) refuse(result);
    // Position by position, up to one that takes more steps.
    for (bool is_slow = false; !is_slow; from += character_at(text, from).bytes) {
      if (const auto found = match_at(text, from, budget, is_slow)) return found;
      if (from == text.size()) return std::nullopt;
    }
  }
}

// By the interpreter, whose stack is on the heap.
std::optional<Span> Regex::match_at(std::string_view text, size_t at, WorkBudget& budget,
                                    bool& is_slow) const {
  const auto run = [&](uint32_t steps) {
    budget.spend(steps, [&] { return description(); });
    return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                       PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT | PCRE2_ANCHORED, thread_state().data(),
                       thread_state().context(steps));
  };
  int result = run(few_steps);
  for (uint32_t steps = few_steps; result == PCRE2_ERROR_MATCHLIMIT && steps < max_match_steps;) {
    is_slow = true;
    steps = std::min(steps * 4, max_match_steps);
    result = run(steps);
  }
  if (result >= 0) return thread_state().span();
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  refuse(result);
}

std::string Regex::description() const { return "the pattern " + json::in_quotes(code_->pattern); }

void Regex::refuse(int error) const {
  fail(regex_op, {.argument = description(),
                  .expected = "a match in at most " + std::to_string(max_match_steps) + " steps",
                  .found = message_of(error)});
}

}  // namespace binade::data
