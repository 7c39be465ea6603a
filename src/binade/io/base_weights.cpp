#include "binade/io/base_weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "binade/autograd/grad_mode.h"
#include "binade/backend/transfer.h"
#include "binade/base/parallel.h"
#include "binade/io/base_parts.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"

namespace binade::io {
namespace {

constexpr const char* base_op = "base format";

using formats::BlockFormat;

Tensor empty_blocks(const BlockFormat& format, int64_t rows, int64_t columns, Device device) {
  const memory::CategoryGuard category(memory::Category::parameters);
  return Tensor::empty({rows, format.bytes_of(columns)}, DType::u8, device);
}

// A part as one of a matrix of its rows alone, called "rows".
Part alone(Part part) {
  part.parameter = "rows";
  part.begin = part.rows = 0;
  return part;
}

int64_t rows_of(const Part& part, const nn::Linear& linear) {
  return part.rows > 0 ? part.rows : linear.weight_shape()[0];
}

// f32 rows in the model's order.
Tensor rows_in_order(const Tensor& source, const Shape& shape, const Part& part) {
  const Tensor rows = Tensor::empty(shape, DType::f32);
  const Tensor target = view_of({{"rows", rows}}, alone(part));
  copy_(target, part.heads > 0 ? reshape(source, target.shape()) : source);
  return rows;
}

// The model's row of each row of a file.
std::vector<int64_t> row_order(const gguf::NamedPart& part, int64_t rows) {
  Tensor ids = Tensor::empty({rows, 1}, DType::f32);  // exact up to 2^24
  for (int64_t i = 0; i < rows; ++i) ids.mutable_data<float>()[i] = static_cast<float>(i);
  gguf::NamedPart of_rows = part;
  of_rows.part = alone(part.part);
  const Tensor in_file = contiguous(gguf::view_of({{"rows", ids}}, of_rows));
  const float* values = in_file.data<float>();
  return {values, values + rows};
}

// The blocks of rows [begin, begin + rows) of a weight.
Tensor blocks_of(const BlockWeight& weight, int64_t begin, int64_t rows) {
  int64_t first = 0;
  for (const BlockPart& part : weight.parts) {
    const int64_t count = part.blocks.size(0);
    if (begin >= first && begin + rows <= first + count)
      return slice(part.blocks, 0, begin - first, begin - first + rows);
    first += count;
  }
  fail(base_op, {.argument = "rows",
                 .expected = "those of one part",
                 .found = std::to_string(begin) + " to " + std::to_string(begin + rows)});
}

const BlockFormat& format_at(const BlockWeight& weight, int64_t begin) {
  for (const BlockPart& part : weight.parts) {
    if (begin < part.blocks.size(0)) return *part.format;
    begin -= part.blocks.size(0);
  }
  return *weight.parts.back().format;
}

void check_columns(const BlockFormat& format, const LinearTarget& target, int64_t columns) {
  if (columns % format.elements == 0) return;
  fail(base_op, {.argument = target.module,
                 .expected = "rows of a multiple of " + std::to_string(format.elements) +
                             " elements for " + std::string(format.name),
                 .found = std::to_string(columns),
                 .hint = "choose another format: " + formats::base_format_names()});
}

// The targets of each linear layer, by its path, in the order of their rows.
std::map<std::string, std::vector<LinearTarget>> targets_by_path(const nn::LanguageModel& model) {
  std::map<std::string, std::vector<LinearTarget>> result;
  for (LinearTarget& one : linear_targets(model)) result[one.path].push_back(std::move(one));
  for (auto& [path, targets] : result)
    std::ranges::sort(targets, {}, [](const LinearTarget& one) { return one.part.begin; });
  return result;
}

// The format of each target's blocks in a file; empty if one of them is not in blocks.
std::vector<const BlockFormat*> formats_in(const gguf::File& file,
                                           const std::map<std::string, std::string>& names,
                                           const std::vector<LinearTarget>& targets) {
  std::vector<const BlockFormat*> result;
  for (const LinearTarget& one : targets) {
    const auto name = names.find(one.part.file_name);
    const gguf::TensorInfo* tensor = name == names.end() ? nullptr : file.find(name->second);
    if (tensor == nullptr || tensor->type->blocks() == nullptr) return {};
    result.push_back(tensor->type->blocks());
  }
  return result;
}

// GGUF's names by those of Hugging Face.
std::map<std::string, std::string> gguf_names(const nn::LanguageModel& model) {
  std::map<std::string, std::string> names;
  for (const gguf::NamedPart& part : gguf::named_parts(gguf::architecture_of(model.config()),
                                                       model.config(), parameters_of(model)))
    names[part.part.file_name] = part.name;
  return names;
}

void check_finite(const BlockFormat& format, const Tensor& blocks, const std::string& name) {
  const int64_t count = blocks.bytes() / format.bytes;
  const auto* bytes = static_cast<const uint8_t*>(blocks.raw_data());
  std::atomic<bool> finite = true;
  parallel_for(count, 64, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(format.elements));
    for (int64_t i = begin; i < end; ++i) {
      format.dequantize(bytes + i * format.bytes, values.data());
      if (!std::ranges::all_of(values, [](float x) { return std::isfinite(x); })) finite = false;
    }
  });
  if (!finite)
    fail(base_op, {.argument = name,
                   .expected = "blocks of finite values",
                   .found = "an infinity or a NaN in " + std::string(format.name)});
}

}  // namespace

void set_base_format(nn::LanguageModel& model, const BlockFormat& format, nn::Placement placement) {
  const auto linears = linears_of(model);
  for (const auto& [path, targets] : targets_by_path(model)) {
    nn::Linear& linear = *linears.at(path);
    const Shape shape = linear.weight_shape();
    check_columns(format, targets.front(), shape[1]);
    linear.set_block_weight(std::make_shared<BlockWeight>(BlockWeight{
        .shape = shape,
        .parts = {{&format, empty_blocks(format, shape[0], shape[1], placement.device)}}}));
  }
}

void set_base_format(nn::LanguageModel& model, const gguf::File& file, nn::Placement placement) {
  const auto linears = linears_of(model);
  const auto names = gguf_names(model);
  for (const auto& [path, targets] : targets_by_path(model)) {
    nn::Linear& linear = *linears.at(path);
    const Shape shape = linear.weight_shape();
    const std::vector<const BlockFormat*> types = formats_in(file, names, targets);
    const bool fits = std::ranges::all_of(
        types, [&](const BlockFormat* type) { return shape[1] % type->elements == 0; });
    if (types.empty() || !fits) {
      const memory::CategoryGuard category(memory::Category::parameters);
      linear.weight = Tensor::empty(shape, placement.dtype, placement.device);
      continue;
    }
    BlockWeight weight{.shape = shape, .parts = {}};
    for (size_t i = 0; i < targets.size(); ++i)
      weight.parts.push_back({types[i], empty_blocks(*types[i], rows_of(targets[i].part, linear),
                                                     shape[1], placement.device)});
    linear.set_block_weight(std::make_shared<BlockWeight>(std::move(weight)));
  }
}

void round_base(nn::LanguageModel& model, const BlockFormat& format) {
  const NoGrad no_grad;
  const auto linears = linears_of(model);
  for (const auto& [path, targets] : targets_by_path(model)) {
    const nn::Linear& linear = *linears.at(path);
    const int64_t columns = linear.weight_shape()[1];
    check_columns(format, targets.front(), columns);
    for (const LinearTarget& one : targets) {
      const int64_t count = rows_of(one.part, linear);
      const Tensor weight =
          slice(linear.weight.detach(), 0, one.part.begin, one.part.begin + count);
      const Tensor rows = contiguous(cast(to(weight, Device::cpu()), DType::f32));
      std::vector<std::byte> blocks(static_cast<size_t>(count * format.bytes_of(columns)));
      formats::encode_base(format, {rows.data<float>(), count, columns}, blocks);
      const Tensor values = Tensor::empty({count, columns}, DType::f32);
      formats::dequantize_blocks(
          format, blocks, {values.mutable_data<float>(), static_cast<size_t>(count * columns)});
      copy_(weight, to(values, weight.device()));
    }
  }
}

BaseParts::BaseParts(nn::LanguageModel& model) {
  for (const auto& [path, linear] : linears_of(model)) {
    if (linear->block_weight() != nullptr) linears_[path + ".weight"] = linear;
  }
}

const BlockWeight* BaseParts::find(const Part& part) const {
  const auto found = linears_.find(part.parameter);
  return found == linears_.end() ? nullptr : found->second->block_weight();
}

void BaseParts::encode_rows(const Part& part, const Tensor& rows) const {
  const BlockWeight& weight = *find(part);
  const BlockFormat& format = format_at(weight, part.begin);
  const Tensor blocks = Tensor::empty({rows.size(0), format.bytes_of(rows.size(1))}, DType::u8);
  try {
    formats::encode_base(
        format, {rows.data<float>(), rows.size(0), rows.size(1)},
        {static_cast<std::byte*>(blocks.raw_data()), static_cast<size_t>(blocks.bytes())});
  } catch (const Error& error) {
    fail(base_op, {.argument = part.file_name,
                   .expected = "weights that " + std::string(format.name) + " can hold",
                   .found = error.what()});
  }
  backend::transfer(blocks, blocks_of(weight, part.begin, rows.size(0)));
}

void BaseParts::encode(const Part& part, const Tensor& source) const {
  const nn::Linear& linear = *linears_.at(part.parameter);
  encode_rows(part, rows_in_order(source, {rows_of(part, linear), linear.weight_shape()[1]}, part));
}

void BaseParts::load(const gguf::NamedPart& part, const gguf::File& file) const {
  const nn::Linear& linear = *linears_.at(part.part.parameter);
  const Shape shape{rows_of(part.part, linear), linear.weight_shape()[1]};
  const BlockWeight& weight = *linear.block_weight();
  const BlockFormat& format = format_at(weight, part.part.begin);
  const gguf::TensorInfo& tensor = *file.find(part.name);
  const std::vector<int64_t> order = row_order(part, shape[0]);
  const bool keeps = tensor.type->blocks() == &format;
  const Tensor given = keeps ? Tensor() : contiguous(cast(file.load(tensor), DType::f32));
  const auto* source =
      keeps ? file.bytes(tensor).data() : static_cast<const std::byte*>(given.raw_data());
  const Tensor rows = keeps ? Tensor::empty({shape[0], format.bytes_of(shape[1])}, DType::u8)
                            : Tensor::empty(shape, DType::f32);
  const auto row_bytes = static_cast<size_t>(rows.bytes() / shape[0]);
  auto* target = static_cast<std::byte*>(rows.raw_data());
  for (size_t i = 0; i < order.size(); ++i)
    std::memcpy(target + static_cast<size_t>(order[i]) * row_bytes, source + i * row_bytes,
                row_bytes);
  if (!keeps) return encode_rows(part.part, rows);
  check_finite(format, rows, part.name);
  backend::transfer(rows, blocks_of(weight, part.part.begin, shape[0]));
}

}  // namespace binade::io
