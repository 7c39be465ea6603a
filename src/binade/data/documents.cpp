#include "binade/data/documents.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "binade/base/division.h"
#include "binade/base/random.h"
#include "binade/ops/create/create.h"

namespace binade::data {
namespace {

constexpr int64_t ignored = -100;  // cross_entropy's ignore_index

// A random permutation of [0, count), one value at a time: a Feistel network over the next even
// number of bits, applied again until its value is below `count`.
uint64_t permuted(uint64_t index, uint64_t count, uint64_t seed, uint64_t stream) {
  constexpr uint64_t rounds = 6;
  int half = 1;
  while ((uint64_t{1} << (2 * half)) < count) ++half;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  uint64_t value = index;
  do {
    for (uint64_t round = 0; round < rounds; ++round) {
      const uint64_t right = value & mask;
      const uint64_t mixed = random::block(seed, stream, right * rounds + round)[0];
      value = right << half | (((value >> half) ^ mixed) & mask);
    }
  } while (value >= count);
  return value;
}

}  // namespace

Documents::Documents(Tokens ids, Tokens is_target, std::vector<int64_t> ends,
                     const Options& options)
    : ids_(std::move(ids)),
      is_target_(std::move(is_target)),
      ends_(std::move(ends)),
      options_(options) {
  options_.paired ? fill_pairs() : fill_rows();
}

Documents Documents::with_reference(std::vector<float> log_probs) const {
  Documents result = *this;
  result.reference_ = std::move(log_probs);
  return result;
}

Documents Documents::mixed(std::span<const std::shared_ptr<const Documents>> parts,
                           std::span<const double> weights) {
  Documents all;
  std::vector<Tokens> ids, is_target;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Documents& part = *parts[i];
    const int64_t tokens = all.ends_.empty() ? 0 : all.ends_.back(), documents = all.size(),
                  rows = all.rows();
    ids.push_back(part.ids_);
    is_target.push_back(part.is_target_);
    for (const int64_t end : part.ends_) all.ends_.push_back(tokens + end);
    for (Row row : part.rows_) {
      for (int64_t& document : row.documents) document += documents;
      all.rows_.push_back(std::move(row));
    }
    all.sources_.push_back({rows, all.rows(), weights[i]});
    all.width_ = std::max(all.width_, part.width_);
    all.options_ = part.options_;
  }
  all.ids_ = Tokens::joined(ids);
  all.is_target_ = Tokens::joined(is_target);
  return all;
}

int64_t Documents::inputs_of(int64_t document) const {
  const int64_t tokens = ends_[static_cast<size_t>(document)] - begin_of(document);
  return std::min(tokens - 1, options_.context);
}

// Packs by best fit, the longest documents first: each goes into the fullest row that has room.
void Documents::fill_rows() {
  std::vector<int64_t> order(ends_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [this](int64_t a, int64_t b) { return inputs_of(a) > inputs_of(b); });
  std::multimap<int64_t, size_t> room;  // of rows, by the tokens that they still take
  for (const int64_t document : order) {
    const int64_t inputs = inputs_of(document);
    const auto found = options_.packed ? room.lower_bound(inputs) : room.end();
    size_t row = rows_.size();
    int64_t left = options_.context;
    if (found == room.end()) {
      rows_.emplace_back();
    } else {
      std::tie(left, row) = *found;
      room.erase(found);
    }
    room.emplace(left - inputs, row);
    width_ = std::max(width_, options_.context - left + inputs);
    add_to_row(row, document);
  }
}

void Documents::fill_pairs() {
  rows_.resize(ends_.size() / 2);
  for (int64_t document = 0; document < size(); ++document) {
    width_ = std::max(width_, inputs_of(document));
    add_to_row(static_cast<size_t>(document / 2), document);
  }
}

void Documents::add_to_row(size_t row, int64_t document) {
  const int64_t begin = begin_of(document);
  rows_[row].documents.push_back(document);
  for (int64_t i = 1; i <= inputs_of(document); ++i) rows_[row].targets += is_target_[begin + i];
}

int64_t Documents::shuffled(int64_t index, uint64_t seed) const {
  const uint64_t stream =
      random::stream_id(random::Domain::data, static_cast<uint64_t>(index / rows()));
  return static_cast<int64_t>(
      permuted(static_cast<uint64_t>(index % rows()), static_cast<uint64_t>(rows()), seed, stream));
}

int64_t Documents::training_row(BatchShape shape, uint64_t seed, int64_t step,
                                int64_t index) const {
  if (sources_.empty()) return shuffled(step * shape.accumulate * shape.batch + index, seed);
  const auto draw =
      random::block(seed, random::stream_id(random::Domain::data, static_cast<uint64_t>(step)),
                    static_cast<uint64_t>(index));
  double choice = std::ldexp(static_cast<double>(draw[2]), -32);
  const Tokens::Source source = source_at(sources_, choice);
  const uint64_t place = (static_cast<uint64_t>(draw[0]) << 32) | draw[1];
  return source.begin +
         static_cast<int64_t>(place % static_cast<uint64_t>(source.end - source.begin));
}

int64_t Documents::spread_row(int64_t index, int64_t count) const {
  if (sources_.empty()) return rows() * index / count;
  double fraction = (static_cast<double>(index) + 0.5) / static_cast<double>(count);
  const Tokens::Source source = source_at(sources_, fraction);
  const auto rows = source.end - source.begin;
  return source.begin +
         std::min(static_cast<int64_t>(fraction * static_cast<double>(rows)), rows - 1);
}

int64_t Documents::targets_of(const std::vector<int64_t>& rows) const {
  int64_t targets = 0;
  for (const int64_t row : rows) targets += rows_[static_cast<size_t>(row)].targets;
  return targets;
}

Batch Documents::training_batch(BatchShape shape, uint64_t seed, int64_t step,
                                int64_t micro) const {
  std::vector<int64_t> own, all;
  for (int64_t i = 0; i < shape.accumulate * shape.batch; ++i) {
    const int64_t row = training_row(shape, seed, step, i);
    all.push_back(row);
    if (i / shape.batch == micro) own.push_back(row);
  }
  Batch batch = gathered(shape, own);
  if (paired()) return batch;  // a pair counts as much as any other
  batch.weight = tensor(static_cast<double>(targets_of(own) * shape.accumulate) /
                        static_cast<double>(targets_of(all)));
  return batch;
}

int64_t Documents::training_tokens(BatchShape shape, uint64_t seed, int64_t step) const {
  int64_t tokens = 0;
  for (int64_t i = 0; i < shape.accumulate * shape.batch; ++i) {
    const Row& row = rows_[static_cast<size_t>(training_row(shape, seed, step, i))];
    for (const int64_t document : row.documents) tokens += inputs_of(document);
  }
  return tokens;
}

Batch Documents::validation_batch(BatchShape shape, int64_t index, int64_t count) const {
  std::vector<int64_t> own, all;
  for (int64_t i = 0; i < count * shape.batch; ++i) {
    all.push_back(spread_row(i, count * shape.batch));
    if (i / shape.batch == index) own.push_back(all.back());
  }
  Batch batch = gathered(shape, own);
  if (paired()) return batch;
  batch.weight =
      tensor(static_cast<double>(targets_of(own) * count) / static_cast<double>(targets_of(all)));
  return batch;
}

Documents::Example Documents::example(int64_t document) const {
  Example result;
  const int64_t end = ends_[static_cast<size_t>(document)];
  int64_t at = begin_of(document);
  for (; at < end && is_target_[at] == 0; ++at) result.prompt.push_back(ids_[at]);
  for (; at < end && is_target_[at] != 0; ++at) result.answer.push_back(ids_[at]);
  return result;
}

Batch Documents::consecutive_batch(BatchShape shape, int64_t begin) const {
  std::vector<int64_t> rows(static_cast<size_t>(shape.batch));
  std::iota(rows.begin(), rows.end(), begin);
  return gathered(shape, rows);
}

Tensor Documents::reference_of(const std::vector<int64_t>& rows) const {
  if (reference_.empty()) return {};
  Tensor result = Tensor::empty({std::ssize(rows), 2}, DType::f32);
  auto* values = result.mutable_data<float>();
  for (const int64_t row : rows) {
    for (const int64_t document : rows_[static_cast<size_t>(row)].documents)
      *values++ = reference_[static_cast<size_t>(document)];
  }
  return result;
}

Batch Documents::gathered(BatchShape shape, const std::vector<int64_t>& rows) const {
  const int64_t width = std::min(round_up(width_, 8), shape.context);
  const Shape lines{shape.batch * lines_per_row(), width};
  Batch batch{.tokens = Tensor::empty(lines, DType::i64),
              .targets = Tensor::empty(lines, DType::i64),
              .reference = reference_of(rows)};
  auto* tokens = batch.tokens.mutable_data<int64_t>();
  auto* targets = batch.targets.mutable_data<int64_t>();
  std::fill_n(tokens, batch.tokens.numel(), 0);
  std::fill_n(targets, batch.targets.numel(), ignored);
  for (size_t r = 0; r < rows.size(); ++r) {
    int64_t line = static_cast<int64_t>(r) * lines_per_row(), at = line * width;
    for (const int64_t document : rows_[static_cast<size_t>(rows[r])].documents) {
      const int64_t begin = begin_of(document), inputs = inputs_of(document);
      ids_.read(begin, {tokens + at, static_cast<size_t>(inputs)});
      for (int64_t i = 0; i < inputs; ++i) {
        if (is_target_[begin + i + 1] != 0) targets[at + i] = ids_[begin + i + 1];
      }
      if (options_.packed) batch.documents.push_back(at);
      at = options_.paired ? ++line * width : at + inputs;
    }
    // The rest of a row is a document of padding, without targets.
    const int64_t end = static_cast<int64_t>(r + 1) * width;
    if (options_.packed && at < end) batch.documents.push_back(at);
  }
  if (options_.packed) batch.documents.push_back(shape.batch * width);
  return batch;
}

}  // namespace binade::data
