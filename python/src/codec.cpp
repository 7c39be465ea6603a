#include "codec.h"

#include <span>

#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/base/random.h"

namespace binade::python {
namespace {

using formats::Format;
namespace spec = formats::spec;

template <const Format& F>
using Code = std::conditional_t<(F.bits() > 16), uint32_t,
                                std::conditional_t<(F.bits() > 8), uint16_t, uint8_t>>;

template <const Format& F>
void encode_range(const float* x, void* codes, int64_t begin, int64_t end,
                  const EncodeOptions& options) {
  auto* out = static_cast<Code<F>*>(codes);
  const bool draws = options.rounding == formats::Rounding::stochastic;
  for (int64_t i = begin; i < end; ++i) {
    const uint32_t bits =
        draws ? random::bits(options.seed, 0, static_cast<uint64_t>(i)) : uint32_t{0};
    out[i] =
        static_cast<Code<F>>(formats::encode<F>(x[i], options.rounding, options.overflow, bits));
  }
}

template <const Format& F>
void decode_range(const void* codes, float* x, int64_t begin, int64_t end) {
  const auto* in = static_cast<const Code<F>*>(codes);
  for (int64_t i = begin; i < end; ++i) x[i] = formats::decode<F>(in[i]);
}

// TF32 has no codes of its own: it is stored as f32.
void encode_tf32(const float* x, void* codes, int64_t begin, int64_t end, const EncodeOptions&) {
  auto* out = static_cast<float*>(codes);
  for (int64_t i = begin; i < end; ++i) out[i] = formats::round_tf32(x[i]);
}

void copy_f32(const float* x, void* codes, int64_t begin, int64_t end, const EncodeOptions&) {
  std::copy(x + begin, x + end, static_cast<float*>(codes) + begin);
}

void read_f32(const void* codes, float* x, int64_t begin, int64_t end) {
  const auto* in = static_cast<const float*>(codes);
  std::copy(in + begin, in + end, x + begin);
}

template <const Format& F>
constexpr Codec codec_of(DType dtype) {
  return {&F, dtype, encode_range<F>, decode_range<F>};
}

constexpr Codec codecs[] = {
    {&spec::f32, DType::f32, copy_f32, read_f32},
    {&spec::tf32, DType::f32, encode_tf32, read_f32},
    codec_of<spec::f16>(DType::f16),
    codec_of<spec::bf16>(DType::bf16),
    codec_of<spec::e4m3>(DType::e4m3),
    codec_of<spec::e4m3fnuz>(DType::u8),
    codec_of<spec::e5m2>(DType::e5m2),
    codec_of<spec::e8m0>(DType::u8),
    codec_of<spec::e2m1>(DType::u8),
};

constexpr int64_t grain = 4096;  // elements that are worth a thread's start

}  // namespace

const Codec& codec(const std::string& name) {
  std::string known;
  for (const Codec& one : codecs) {
    if (name == one.format->name) return one;
    known += (known.empty() ? "" : ", ") + std::string(one.format->name);
  }
  fail("formats", {.argument = "format", .expected = "one of " + known, .found = "'" + name + "'"});
}

Tensor encode(const Tensor& x, const Codec& codec, const EncodeOptions& options) {
  Tensor codes = Tensor::empty(x.shape(), codec.dtype);
  const auto* from = static_cast<const float*>(x.raw_data());
  void* to = codes.raw_data();
  parallel_for(x.numel(), grain,
               [&](int64_t begin, int64_t end) { codec.encode(from, to, begin, end, options); });
  return codes;
}

Tensor decode(const Tensor& codes, const Codec& codec) {
  if (codes.dtype() != codec.dtype || !codes.is_dense()) {
    fail("formats", {.argument = "codes",
                     .expected = "a dense tensor of " + std::string(name(codec.dtype)),
                     .found = describe(codes)});
  }
  Tensor x = Tensor::empty(codes.shape(), DType::f32);
  auto* to = static_cast<float*>(x.raw_data());
  const void* from = codes.raw_data();
  parallel_for(codes.numel(), grain,
               [&](int64_t begin, int64_t end) { codec.decode(from, to, begin, end); });
  return x;
}

}  // namespace binade::python
