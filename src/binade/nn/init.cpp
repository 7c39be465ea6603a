#include "binade/nn/init.h"

#include "binade/backend/backend.h"
#include "binade/base/random.h"

namespace binade::nn::init {
namespace {

thread_local uint64_t current_seed = 0;
thread_local uint64_t next_stream = random::stream_id(random::Domain::parameters, 0);
thread_local bool skip_init = false;

Tensor parameter(const Shape& shape, Placement placement) {
  const memory::CategoryGuard category(memory::Category::parameters);
  return Tensor::empty(shape, placement.dtype, placement.device);
}

}  // namespace

SkipInit::SkipInit() : skip_(skip_init, true) {}

void restart(uint64_t seed) {
  current_seed = seed;
  next_stream = random::stream_id(random::Domain::parameters, 0);
}

Tensor normal(const Shape& shape, double deviation, Placement placement) {
  Tensor x = parameter(shape, placement);
  if (!skip_init)
    backend::of(x).activation.fill_normal(0, deviation, {current_seed, next_stream++}, x);
  return x;
}

Tensor uniform(const Shape& shape, double bound, Placement placement) {
  Tensor x = parameter(shape, placement);
  if (!skip_init)
    backend::of(x).activation.fill_uniform(-bound, bound, {current_seed, next_stream++}, x);
  return x;
}

Tensor constant(const Shape& shape, double value, Placement placement) {
  Tensor x = parameter(shape, placement);
  if (!skip_init) backend::of(x).elementwise.fill(x, value);
  return x;
}

}  // namespace binade::nn::init
