#include "ops/table/inputs.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "binade/backend/transfer.h"
#include "binade/base/random.h"
#include "support/values.h"

namespace binade::optable {
namespace {

// FNV-1a: each case draws numbers of its own, the same in every run.
uint64_t seed_of(Op op, const Case& test) {
  uint64_t hash = 14695981039346656037u;
  const std::string text = std::string(name(op)) + "/" + test.name;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

std::vector<double> draw(const Input& input, uint64_t seed, uint64_t stream) {
  const auto count = static_cast<uint64_t>(input.shape.numel());
  std::vector<double> values(count);
  const double range = input.draw.high - input.draw.low;
  for (uint64_t i = 0; i < count; ++i) {
    double x = input.draw.low + range * static_cast<double>(random::uniform(seed, stream, i));
    if (input.kind == Input::Kind::index || input.kind == Input::Kind::boolean)
      x = std::floor(x);
    else if (std::abs(x) < input.draw.gap)
      x += x < 0 ? -input.draw.gap : input.draw.gap;
    values[i] = x;
    if (!input.draw.among.empty()) {
      const auto count = static_cast<double>(input.draw.among.size());
      values[i] = input.draw.among[static_cast<size_t>(
          count * static_cast<double>(random::uniform(seed, stream, i)))];
    }
  }
  if (!input.draw.distinct) return values;
  // Ranks are all different: spread them evenly over the range.
  std::vector<uint64_t> order(count);
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::sort(order.begin(), order.end(),
            [&](uint64_t a, uint64_t b) { return values[a] < values[b]; });
  for (uint64_t rank = 0; rank < count; ++rank) {
    double& x = values[order[rank]];
    x = input.draw.low + range * (static_cast<double>(rank) + 0.5) / static_cast<double>(count);
    if (std::abs(x) < input.draw.gap) x += x < 0 ? -input.draw.gap : input.draw.gap;
  }
  return values;
}

struct Placement {
  Shape block;  // of the memory around the tensor
  Strides strides;
  int64_t offset = 0;
};

Placement placement(const Shape& shape, Layout layout) {
  Placement place{shape, dense_strides(shape), 0};
  const int last = shape.rank() - 1;
  if (last < 0) return place;
  if (layout == Layout::transposed && last > 0) {
    std::swap(place.block[last], place.block[last - 1]);
    place.strides = dense_strides(place.block);
    std::swap(place.strides[last], place.strides[last - 1]);
  } else if (layout == Layout::sliced) {
    for (int axis = 0; axis <= last; ++axis) place.block[axis] += axis == last ? 3 : 1;
    place.strides = dense_strides(place.block);
    place.offset = 2 + (last > 0 ? place.strides[0] : 0);
  } else if (layout == Layout::strided) {
    place.block[last] *= 2;
    place.strides = dense_strides(place.block);
    place.strides[last] = 2;
  }
  return place;
}

}  // namespace

const char* name(Layout layout) {
  constexpr const char* names[] = {"dense", "transposed", "sliced", "strided"};
  return names[static_cast<size_t>(layout)];
}

const std::vector<std::vector<double>>& draw_inputs(Op op, const Case& test) {
  // Runs in several types and layouts ask for the same numbers one after another.
  thread_local uint64_t last_seed = 0;
  thread_local std::vector<std::vector<double>> values;
  const uint64_t seed = seed_of(op, test);
  if (seed == last_seed) return values;
  last_seed = seed;
  values.clear();
  for (const Input& input : test.inputs) values.push_back(draw(input, seed, values.size()));
  return values;
}

DType type_of(const Input& input, DType dtype) { return input.dtype.value_or(dtype); }

Tensor make(const Input& input, const std::vector<double>& values, DType dtype, Layout layout,
            Device device) {
  const Placement place = placement(input.shape, layout);
  const Device source = device.is_cuda() ? Device::cpu() : device;
  const Tensor block = Tensor::empty(place.block, type_of(input, dtype), source);
  const Tensor x = block.strided(input.shape, place.strides, place.offset);
  if (source.is_cpu()) {
    test::fill(block, 77);  // what a kernel must not read
    test::write(x, values);
  }
  if (source == device) return x;
  return backend::transfer(block, device).strided(input.shape, place.strides, place.offset);
}

std::vector<Tensor> make_all(const Case& test, const std::vector<std::vector<double>>& values,
                             DType dtype, Layout layout, Device device) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    tensors.push_back(make(test.inputs[i], values[i], dtype, layout, device));
    if (test.inputs[i].kind == Input::Kind::variable) tensors.back().set_requires_grad();
  }
  return tensors;
}

const std::vector<double>& draw_gradient(Op op, const Case& test, size_t output, int64_t count) {
  thread_local std::map<size_t, std::vector<double>> outputs;  // as in draw_inputs()
  thread_local uint64_t last_seed = 0;
  const uint64_t seed = seed_of(op, test);
  if (std::exchange(last_seed, seed) != seed) outputs.clear();
  std::vector<double>& values = outputs[output];
  if (values.size() == static_cast<size_t>(count)) return values;
  values.resize(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = 2 * static_cast<double>(random::uniform(seed, 1000 + output, i)) - 1;
  return values;
}

}  // namespace binade::optable
