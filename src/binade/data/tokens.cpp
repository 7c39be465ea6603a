#include "binade/data/tokens.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "binade/base/error.h"

static_assert(std::endian::native == std::endian::little,
              "token files hold little-endian ids, mapped as they are");

namespace binade::data {

Tokens::Tokens(std::shared_ptr<const void> owner, const std::byte* data, int width, int64_t count) {
  if (count > 0) parts_.push_back({std::move(owner), data, width, 0, count});
}

Tokens Tokens::of_bytes(std::string text) { return of_ids(std::move(text), 1); }

Tokens Tokens::of_ids(std::string bytes, int width) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  const auto* data = reinterpret_cast<const std::byte*>(owner->data());
  const auto count = static_cast<int64_t>(owner->size()) / width;
  return {std::move(owner), data, width, count};
}

Tokens Tokens::joined(std::span<const Tokens> runs) {
  Tokens result;
  for (const Tokens& run : runs) {
    for (const Part& part : run.parts_) result.append(part, part.begin, part.end);
  }
  return result;
}

Tokens Tokens::mixed(std::span<const Tokens> runs, std::span<const double> weights) {
  Tokens result = joined(runs);
  int64_t begin = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const int64_t end = begin + runs[i].size();
    result.sources_.push_back({begin, end, weights[i]});
    begin = end;
  }
  return result;
}

// Appends the ids [begin, end) of the sequence that `part` belongs to.
void Tokens::append(const Part& part, int64_t begin, int64_t end) {
  const int64_t at = size();
  parts_.push_back({part.owner, part.data + (begin - part.begin) * part.width, part.width, at,
                    at + end - begin});
}

int64_t Tokens::operator[](int64_t index) const {
  int64_t id = 0;
  read(index, {&id, 1});
  return id;
}

void Tokens::read(int64_t begin, std::span<int64_t> ids) const {
  auto part = std::upper_bound(parts_.begin(), parts_.end(), begin,
                               [](int64_t at, const Part& p) { return at < p.end; });
  for (int64_t& out : ids) {
    if (begin == part->end) ++part;
    uint32_t id = 0;
    std::memcpy(&id, part->data + (begin - part->begin) * part->width,
                static_cast<size_t>(part->width));
    out = id;
    ++begin;
  }
}

Tokens Tokens::slice(int64_t begin, int64_t end) const {
  Tokens result;
  for (const Part& part : parts_) {
    const int64_t from = std::max(begin, part.begin), to = std::min(end, part.end);
    if (from < to) result.append(part, from, to);
  }
  return result;
}

Tokens Tokens::with_documents(std::shared_ptr<const Documents> documents) const {
  Tokens result = *this;
  result.documents_ = std::move(documents);
  return result;
}

int64_t Tokens::largest() const {
  int64_t result = -1;
  std::array<int64_t, 4096> block;
  for (int64_t at = 0; at < size(); at += std::ssize(block)) {
    const auto count = std::min<int64_t>(std::ssize(block), size() - at);
    const std::span ids(block.data(), static_cast<size_t>(count));
    read(at, ids);
    result = std::max(result, *std::max_element(ids.begin(), ids.end()));
  }
  return result;
}

Tokens::Source source_at(std::span<const Tokens::Source> sources, double& fraction) {
  double total = 0;
  for (const Tokens::Source& source : sources) total += source.weight;
  double rest = fraction * total;
  for (const Tokens::Source& source : sources) {
    if (rest < source.weight) {
      fraction = rest / source.weight;
      return source;
    }
    rest -= source.weight;
  }
  fraction = 1;
  return sources.back();
}

void append_ids(std::string& bytes, std::span<const int32_t> ids, int width) {
  for (const int32_t id : ids)
    bytes.append(reinterpret_cast<const char*>(&id), static_cast<size_t>(width));
}

Split split(const Tokens& tokens, double fraction, int64_t context, const std::string& source) {
  const int64_t sequence = context + 1;
  const auto held_out =
      static_cast<int64_t>(std::floor(fraction * static_cast<double>(tokens.size())));
  const int64_t validation = std::max(held_out, sequence);
  if (tokens.size() - validation < sequence) {
    fail("data",
         {.argument = source,
          .expected = "at least " + std::to_string(2 * sequence) +
                      " tokens: one sequence of context + 1 to train on and one to validate on",
          .found = std::to_string(tokens.size()),
          .hint = "give more text or a smaller --context"});
  }
  const int64_t cut = tokens.size() - validation;
  return {tokens.slice(0, cut), tokens.slice(cut, tokens.size())};
}

}  // namespace binade::data
