#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/reference.h"
#include "formats/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/convert_inl_test.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Must come after foreach_target.h.
#include "binade/formats/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::formats::HWY_NAMESPACE {
namespace {

// Inputs whose vector load or store differs from the scalar conversion.
template <class T>
size_t count_differences(const std::vector<float>& inputs) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  std::vector<T> stored(lanes);
  std::vector<float> loaded(lanes);
  size_t differences = 0;
  for (size_t i = 0; i + lanes <= inputs.size(); i += lanes) {
    store_f32(hn::LoadU(d, inputs.data() + i), d, stored.data());
    hn::StoreU(load_f32(d, stored.data()), d, loaded.data());
    for (size_t lane = 0; lane < lanes; ++lane) {
      const T expected(inputs[i + lane]);
      differences += std::memcmp(&stored[lane], &expected, sizeof(T)) != 0;
      differences += testing::to_bits(loaded[lane]) != testing::to_bits(float(expected));
    }
  }
  return differences;
}

std::string differences() {
  const std::vector<float> inputs = testing::strided(16381);
  std::string found;
  const auto check = [&](const char* name, size_t count) {
    if (count != 0) found += std::string(name) + ": " + std::to_string(count) + " ";
  };
  check("f32", count_differences<float>(inputs));
  check("f16", count_differences<f16>(inputs));
  check("bf16", count_differences<bf16>(inputs));
  check("e4m3", count_differences<e4m3>(inputs));
  check("e4m3fnuz", count_differences<e4m3fnuz>(inputs));
  check("e5m2", count_differences<e5m2>(inputs));
  check("e8m0", count_differences<e8m0>(inputs));
  return found;
}

}  // namespace
}  // namespace binade::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::formats {

HWY_EXPORT(differences);

namespace {

TEST(ConvertInl, LoadsAndStoresEqualTheScalar) {
  testing::for_each_target([] { EXPECT_EQ(HWY_DYNAMIC_DISPATCH(differences)(), ""); });
}

}  // namespace
}  // namespace binade::formats
#endif
