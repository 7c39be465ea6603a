#include "binade/data/batches.h"

#include <cmath>

#include "binade/base/random.h"
#include "binade/data/documents.h"
#include "binade/io/file.h"

namespace binade::data {
namespace {

// The batch whose row r starts at token position_of(r).
template <class PositionOf>
Batch gathered(const Tokens& tokens, BatchShape shape, PositionOf&& position_of) {
  Batch result{Tensor::empty({shape.batch, shape.context}, DType::i64),
               Tensor::empty({shape.batch, shape.context}, DType::i64)};
  auto* inputs = result.tokens.mutable_data<int64_t>();
  auto* targets = result.targets.mutable_data<int64_t>();
  const auto context = static_cast<size_t>(shape.context);
  for (int64_t row = 0; row < shape.batch; ++row) {
    const int64_t position = position_of(row);
    tokens.read(position, {inputs + row * shape.context, context});
    tokens.read(position + 1, {targets + row * shape.context, context});
  }
  io::check_mapped_files("data");
  return result;
}

}  // namespace

Batch training_batch(const Tokens& tokens, BatchShape shape, uint64_t seed, int64_t step,
                     int64_t micro) {
  if (tokens.documents()) return tokens.documents()->training_batch(shape, seed, step, micro);
  const uint64_t stream = random::stream_id(random::Domain::data, static_cast<uint64_t>(step));
  return gathered(tokens, shape, [&](int64_t row) {
    const auto draw = random::block(seed, stream, static_cast<uint64_t>(micro * shape.batch + row));
    double choice = std::ldexp(static_cast<double>(draw[2]), -32);
    const Tokens::Source source = tokens.sources().empty() ? Tokens::Source{0, tokens.size(), 1}
                                                           : source_at(tokens.sources(), choice);
    const auto positions = static_cast<uint64_t>(source.end - source.begin - shape.context);
    const uint64_t position = ((static_cast<uint64_t>(draw[0]) << 32) | draw[1]) % positions;
    return source.begin + static_cast<int64_t>(position);
  });
}

int64_t training_tokens(const Tokens& tokens, BatchShape shape, uint64_t seed, int64_t step) {
  if (tokens.documents()) return tokens.documents()->training_tokens(shape, seed, step);
  return shape.accumulate * shape.batch * shape.context;
}

Batch validation_batch(const Tokens& tokens, BatchShape shape, int64_t index, int64_t count) {
  if (tokens.documents()) return tokens.documents()->validation_batch(shape, index, count);
  const int64_t rows = count * shape.batch;
  return gathered(tokens, shape, [&](int64_t row) {
    row += index * shape.batch;
    const int64_t last = tokens.size() - shape.context - 1;
    if (tokens.sources().empty()) return rows > 1 ? last * row / (rows - 1) : 0;
    double fraction = (static_cast<double>(row) + 0.5) / static_cast<double>(rows);
    const Tokens::Source source = source_at(tokens.sources(), fraction);
    const auto span = static_cast<double>(source.end - source.begin - shape.context - 1);
    return source.begin + static_cast<int64_t>(fraction * span);
  });
}

Batch consecutive_batch(const Tokens& tokens, BatchShape shape, int64_t begin) {
  return gathered(tokens, shape, [&](int64_t row) { return begin + row * shape.context; });
}

}  // namespace binade::data
