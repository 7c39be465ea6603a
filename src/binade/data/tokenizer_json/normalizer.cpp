#include "binade/data/tokenizer_json/normalizer.h"

#include "binade/base/error.h"

namespace binade::data {
namespace {

// Bounds for hostile files. NFKC grows text 11-fold at most, replacing spaces 3-fold.
constexpr size_t max_normalizer_growth = 32, max_normalizer_extra = 64 << 10;

struct ApplyNormalizer {
  std::string_view text;
  Normalizer::Piece piece;
  size_t limit;
  WorkBudget& budget;
  std::string& out;

  void operator()(NormalForm form) const { append_normalized(out, text, form); }
  void operator()(Lowercase) const { append_lowercase(out, text); }
  void operator()(StripAccents step) const { append_without_marks(out, text, step.marks); }
  void operator()(CleanText) const { append_cleaned(out, text); }
  void operator()(SpaceIdeographs) const { append_spaced_ideographs(out, text); }
  void operator()(const Prepend& step) const {
    if (piece == Normalizer::Piece::segment && !text.empty()) out += step.text;
    out += text;
  }
  void operator()(const Replace& step) const {
    step.pattern.each_part(text, budget, [&](std::string_view part, bool is_match) {
      out += is_match ? std::string_view(step.content) : part;
      if (out.size() > limit) {
        fail("tokenizer",
             {.argument = "the normalizer",
              .expected = "at most " + std::to_string(limit) + " bytes for a text of " +
                          std::to_string((limit - max_normalizer_extra) / max_normalizer_growth),
              .found = "more"});
      }
    });
  }
};

}  // namespace

std::string_view Normalizer::apply(std::string_view text, Piece piece, WorkBudget& budget,
                                   std::string& storage) const {
  const size_t limit = text.size() * max_normalizer_growth + max_normalizer_extra;
  std::string next;
  for (const NormalizerStep& step : steps_) {
    next.clear();
    std::visit(ApplyNormalizer{text, piece, limit, budget, next}, step);
    storage.swap(next);
    text = storage;
  }
  return text;
}

}  // namespace binade::data
