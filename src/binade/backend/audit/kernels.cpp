#include <algorithm>
#include <variant>

#include "binade/backend/audit/session.h"
#include "binade/backend/audit/tiles.h"
#include "binade/backend/update_rules.h"
#include "binade/base/division.h"
#include "binade/formats/dynamic_code.h"

// The audited kernels: each chooses pieces, keeps what the kernel will overwrite of them, calls the
// kernel, computes the pieces again, and compares.
namespace binade::backend::audit {
namespace {

constexpr int64_t rows_of_norm = 16;

// What a norm's rows are sliced along: views as [rows, width], statistics as [rows].
class RowPieces {
 public:
  explicit RowPieces(const TensorView& x)
      : width_(x.shape[x.rank() - 1]), rows_(width_ == 0 ? 0 : x.numel() / width_) {}

  int64_t count() const { return divide_up(rows_, rows_of_norm); }
  Part operator[](int64_t index) const { return part_of(rows_, rows_of_norm, index); }
  TensorView of(const TensorView& x, const Part& part) const {
    if (!x.present) return x;
    TensorView rows = x;
    rows.shape = {rows_, width_};
    rows.strides = dense_strides(rows.shape);
    return slice(rows, 0, part.begin, part.count);
  }
  int64_t width() const { return width_; }

 private:
  int64_t width_, rows_;
};

bool rounds_stochastically(const UpdateRule& rule) {
  return std::visit([](const auto& params) { return params.stochastic_rounding; }, rule.params);
}

// One chunk of an item: the same elements of each of its tensors.
struct Chunk {
  size_t item;
  int64_t begin, count;

  TensorView of(const TensorView& x, int64_t per_element = 1) const {
    return flat_slice(x, begin * per_element, count * per_element);
  }
  TensorView of_scale(const TensorView& x) const {
    return flat_slice(x, begin / formats::dynamic_block, divide_up(count, formats::dynamic_block));
  }
};

std::vector<Chunk> chunks_of(std::span<const UpdateItem> items) {
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < items.size(); ++i) {
    const int64_t elements = items[i].master.numel();
    for (int64_t begin = 0; begin < elements; begin += norm_piece)
      chunks.push_back({i, begin, std::min(norm_piece, elements - begin)});
  }
  return chunks;
}

// The tensors of a chunk, copied before the update.
struct ChunkCopy {
  ChunkCopy(const UpdateItem& item, const Chunk& chunk)
      : master(copy_of(chunk.of(item.master))),
        rest(copy_of(chunk.of(item.rest, 2))),
        gradient(copy_of(chunk.of(item.gradient))),
        first(copy_of(chunk.of(item.first))),
        second(copy_of(chunk.of(item.second))),
        third(copy_of(chunk.of(item.third))),
        first_scale(copy_of(chunk.of_scale(item.first_scale))),
        second_scale(copy_of(chunk.of_scale(item.second_scale))),
        low(copy_of(chunk.of(item.copy))),
        skipped(item.skipped) {}

  UpdateItem item() const {
    return {.master = master.view,
            .rest = rest.view,
            .gradient = gradient.view,
            .first = first.view,
            .second = second.view,
            .third = third.view,
            .first_scale = first_scale.view,
            .second_scale = second_scale.view,
            .copy = low.view,
            .skipped = skipped};
  }

  Copy master, rest, gradient, first, second, third, first_scale, second_scale, low;
  TensorView skipped;
};

}  // namespace

void matmul(TensorView a, TensorView b, TensorView y, const Epilogue& epilogue) {
  const auto& plain = audit_session().plain.matmul;
  if (!is_on() || has_groups(epilogue) || y.numel() == 0) return plain.matmul(a, b, y, epilogue);
  const Tiles tiles(y);
  AuditedKernel kernel("matmul", tiles.count());
  std::vector<Copy> results;
  for (const int64_t index : kernel.chosen()) {
    const TensorView tile = tiles[index].of(y);
    results.push_back(epilogue.beta != 0 ? copy_of(tile) : zeros_like(tile));
  }
  plain.matmul(a, b, y, epilogue);
  kernel.written(y);
  for (size_t i = 0; i < results.size(); ++i) {
    const Tile tile = tiles[kernel.chosen()[i]];
    const Copy pre = zeros_like(tile.of(epilogue.pre_activation));
    const Copy amax = zeros_like(epilogue.amax_y);
    Epilogue part = epilogue;
    part.bias = tile.of_bias(part.bias);
    if (pre.view.present) part.pre_activation = batch_of_one(pre.view);
    part.amax_y = amax.view;
    kernel.again(
        [&] { plain.matmul(tile.of_a(a), tile.of_b(b), batch_of_one(results[i].view), part); });
    const int64_t first = tile.first_of(y);
    kernel.compare({"y", tile.of(y), results[i].view, first, y.shape[2]});
    kernel.compare(
        {"pre_activation", tile.of(epilogue.pre_activation), pre.view, first, y.shape[2]});
  }
}

void norm_forward(const NormForward& args) {
  const auto& plain = audit_session().plain.norm;
  if (!is_on() || args.x.numel() == 0) return plain.forward(args);
  const RowPieces rows(args.x);
  AuditedKernel kernel("norm", rows.count());
  // The kernel may write over its inputs.
  std::vector<Copy> inputs, others;
  for (const int64_t index : kernel.chosen()) {
    inputs.push_back(copy_of(rows.of(args.x, rows[index])));
    others.push_back(copy_of(rows.of(args.residual, rows[index])));
  }
  plain.forward(args);
  kernel.written(args.y.present ? args.y : args.rstd);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Part part = rows[kernel.chosen()[i]];
    const Copy sum = zeros_like(rows.of(args.sum, part)), y = zeros_like(rows.of(args.y, part));
    const Copy mean = zeros_like(slice(args.mean, 0, part.begin, part.count));
    const Copy rstd = zeros_like(slice(args.rstd, 0, part.begin, part.count));
    NormForward again = args;
    again.x = inputs[i].view;
    again.residual = others[i].view;
    again.sum = sum.view;
    again.y = y.view;
    again.mean = mean.view;
    again.rstd = rstd.view;
    again.quantized = {};
    kernel.again([&] { plain.forward(again); });
    const int64_t width = rows.width(), first = part.begin * width;
    kernel.compare({"sum", rows.of(args.sum, part), sum.view, first, width});
    kernel.compare({"y", rows.of(args.y, part), y.view, first, width});
    kernel.compare({"mean", slice(args.mean, 0, part.begin, part.count), mean.view, part.begin, 0});
    kernel.compare({"rstd", slice(args.rstd, 0, part.begin, part.count), rstd.view, part.begin, 0});
  }
}

void norm_backward(const NormBackward& args) {
  const auto& plain = audit_session().plain.norm;
  if (!is_on() || args.x.numel() == 0 || !args.dx.present()) return plain.backward(args);
  const RowPieces rows(args.x);
  AuditedKernel kernel("norm gradient", rows.count());
  struct Inputs {
    Copy dy, dsum, x, dx;
  };
  std::vector<Inputs> inputs;
  for (const int64_t index : kernel.chosen()) {
    const auto copied = [&](const TensorView& x) { return copy_of(rows.of(x, rows[index])); };
    inputs.push_back({copied(args.dy), copied(args.dsum), copied(args.x), copied(args.dx.view)});
  }
  plain.backward(args);
  kernel.written(args.dx.view);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Part part = rows[kernel.chosen()[i]];
    const NormBackward again{.kind = args.kind,
                             .dy = inputs[i].dy.view,
                             .dsum = inputs[i].dsum.view,
                             .x = inputs[i].x.view,
                             .weight = args.weight,
                             .mean = slice(args.mean, 0, part.begin, part.count),
                             .rstd = slice(args.rstd, 0, part.begin, part.count),
                             .dx = {inputs[i].dx.view, args.dx.accumulate}};
    kernel.again([&] { plain.backward(again); });
    kernel.compare({"dx", rows.of(args.dx.view, part), inputs[i].dx.view, part.begin * rows.width(),
                    rows.width()});
  }
}

void update(std::span<const UpdateItem> items, const UpdateRule& rule, UpdateControl control) {
  const auto& plain = audit_session().plain.optimizer;
  if (!is_on() || rounds_stochastically(rule)) return plain.update(items, rule, control);
  const std::vector<Chunk> chunks = chunks_of(items);
  AuditedKernel kernel("update", std::ssize(chunks));
  std::vector<ChunkCopy> copies;
  for (const int64_t index : kernel.chosen()) {
    const Chunk& chunk = chunks[static_cast<size_t>(index)];
    copies.emplace_back(items[chunk.item], chunk);
  }
  plain.update(items, rule, control);
  for (const UpdateItem& item : items) kernel.written(item.master);
  for (size_t i = 0; i < copies.size(); ++i) {
    const Chunk& chunk = chunks[static_cast<size_t>(kernel.chosen()[i])];
    const UpdateItem &item = items[chunk.item], again = copies[i].item();
    kernel.again([&] { plain.update({&again, 1}, rule, control); });
    const auto compare = [&](const char* name, const TensorView& found,
                             const TensorView& expected) {
      kernel.compare({name, found, expected, chunk.begin, 0});
    };
    compare("master weight", chunk.of(item.master), again.master);
    compare("rest", chunk.of(item.rest, 2), again.rest);
    compare("first", chunk.of(item.first), again.first);
    compare("second", chunk.of(item.second), again.second);
    compare("third", chunk.of(item.third), again.third);
    compare("first scale", chunk.of_scale(item.first_scale), again.first_scale);
    compare("second scale", chunk.of_scale(item.second_scale), again.second_scale);
    compare("weight", chunk.of(item.copy), again.copy);
  }
}

}  // namespace binade::backend::audit
