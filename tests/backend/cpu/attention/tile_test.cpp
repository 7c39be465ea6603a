#include "binade/backend/cpu/attention/tile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "binade/backend/cpu/attention/softmax.h"
#include "binade/base/cpu_features.h"
#include "binade/base/division.h"
#include "binade/base/random.h"
#include "formats/targets.h"

// Panels rounded to bf16 by the kernel against the same panels computed in f32.
namespace binade::backend::cpu::attention::tile_test {
namespace {

using Numbers = std::vector<float>;

Numbers random_numbers(int64_t n, uint64_t seed) {
  Numbers numbers(static_cast<size_t>(n));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 3 * random::normal(seed, 1, i);
  return numbers;
}

struct PanelCase {
  int64_t queries, keys, width;
  Mask mask;
  int group;
  int64_t step;  // the kernels write complete steps, a multiple of `group`

  std::string text() const {
    return std::to_string(queries) + " queries, " + std::to_string(keys) + " keys, width " +
           std::to_string(width) + ", diagonal " + std::to_string(mask.diagonal) + ", group " +
           std::to_string(group);
  }
};

// Element (k, column) of a right panel.
size_t right_index(const PanelCase& c, int64_t k, int64_t column) {
  return static_cast<size_t>(k / c.group * c.width * c.group + column * c.group + k % c.group);
}

void expect_code(bf16 found, float expected, const std::string& what) {
  EXPECT_EQ(found.bits, bf16(expected).bits) << what << ": " << expected;
}

constexpr int64_t none_hidden = 1000;

// Whether this CPU has the bf16 matmuls that read such panels.
bool is_used(int group) {
#if defined(__aarch64__)
  return group == 2 || cpu_features().neon_bf16;
#else
  return group == 2 || group == 4;
#endif
}

const bf16 unwritten = bf16::from_bits(0x7fff);

void check_online_softmax(const PanelCase& c) {
  const int64_t end = round_up(c.keys, c.step);
  const Numbers scores = random_numbers(end * c.width, 1);
  const auto lanes = static_cast<size_t>(c.width);
  Numbers p = scores, maximum(lanes, -1), sum(lanes, 2), correction(lanes);
  Numbers found_maximum = maximum, found_sum = sum, found_correction = correction;
  online_softmax(OnlineSoftmax<float>{.keys = c.keys,
                                      .width = c.width,
                                      .mask = c.mask,
                                      .scale = 0.3f,
                                      .scores = p.data(),
                                      .maximum = maximum.data(),
                                      .sum = sum.data(),
                                      .correction = correction.data()});
  std::vector<bf16> found(scores.size(), unwritten);
  Numbers kept = scores;
  online_softmax({.keys = c.keys,
                  .width = c.width,
                  .mask = c.mask,
                  .scale = 0.3f,
                  .scores = kept.data(),
                  .maximum = found_maximum.data(),
                  .sum = found_sum.data(),
                  .correction = found_correction.data()},
                 {.data = found.data(), .group = c.group, .k = end});
  EXPECT_EQ(kept, scores);
  EXPECT_EQ(found_maximum, maximum);
  EXPECT_EQ(found_sum, sum);
  EXPECT_EQ(found_correction, correction);
  for (int64_t k = 0; k < end; ++k) {
    for (int64_t j = 0; j < c.width; ++j) {
      const float expected = k < c.keys ? p[static_cast<size_t>(k * c.width + j)] : 0;
      expect_code(found[right_index(c, k, j)], expected, "p " + std::to_string(k));
    }
  }
}

TEST(CpuAttentionTile, RoundsProbabilities) {
  formats::testing::for_each_target([] {
    for (const PanelCase& c :
         {PanelCase{0, 12, 12, {none_hidden}, 4, 4}, PanelCase{0, 29, 12, {none_hidden}, 4, 4},
          PanelCase{0, 31, 12, {5}, 4, 4}, PanelCase{0, 40, 12, {-3}, 4, 4},
          PanelCase{0, 30, 32, {2}, 2, 2}, PanelCase{0, 33, 32, {none_hidden}, 2, 32}}) {
      if (!is_used(c.group)) continue;
      SCOPED_TRACE(c.text());
      check_online_softmax(c);
    }
  });
}

void check_softmax_gradient(const PanelCase& c) {
  const int64_t end = round_up(c.queries, c.step);
  const Numbers scores = random_numbers(end * c.width, 1),
                gradients = random_numbers(end * c.width, 2), lse = random_numbers(end, 3),
                delta = random_numbers(end, 4);
  Numbers p = scores, ds = gradients;
  softmax_gradient(SoftmaxGradient<float>{.queries = c.queries,
                                          .width = c.width,
                                          .mask = c.mask,
                                          .scale = 0.3f,
                                          .scores = p.data(),
                                          .gradients = ds.data(),
                                          .lse = lse.data(),
                                          .delta = delta.data()});
  // Enough panels of queries, each with the keys of this panel alone.
  const int64_t query_panel = c.width * c.width;
  std::vector<bf16> found_p(scores.size(), unwritten), found_ds(found_p),
      of_queries(static_cast<size_t>((end / c.width + 1) * query_panel), unwritten);
  const int64_t begin = round_down(c.mask.first_query(0, c.queries), c.width);
  softmax_gradient({.queries = c.queries,
                    .width = c.width,
                    .mask = c.mask,
                    .scale = 0.3f,
                    .scores = scores.data(),
                    .gradients = gradients.data(),
                    .lse = lse.data(),
                    .delta = delta.data()},
                   {.begin = begin,
                    .end = end,
                    .columns = c.keys,
                    .group = c.group,
                    .p = found_p.data(),
                    .ds = found_ds.data(),
                    .ds_of_queries = of_queries.data(),
                    .query_panel = query_panel});
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t j = 0; j < c.width; ++j) {
      const auto at = static_cast<size_t>(i * c.width + j);
      const bool there = i < c.queries && j < c.keys;
      const std::string where = std::to_string(i) + ", " + std::to_string(j);
      expect_code(found_p[right_index(c, i, j)], there ? p[at] : 0, "p " + where);
      expect_code(found_ds[right_index(c, i, j)], there ? ds[at] : 0, "ds " + where);
      const size_t of_query = c.group == 2 ? at
                                           : static_cast<size_t>(i / c.width * query_panel) +
                                                 right_index(c, j, i % c.width);
      expect_code(of_queries[of_query], there ? ds[at] : 0, "ds of queries " + where);
    }
  }
}

TEST(CpuAttentionTile, RoundsGradients) {
  formats::testing::for_each_target([] {
    for (const PanelCase& c :
         {PanelCase{24, 12, 12, {none_hidden}, 4, 4}, PanelCase{29, 12, 12, {none_hidden}, 4, 4},
          PanelCase{31, 7, 12, {none_hidden}, 4, 4}, PanelCase{41, 12, 12, {-14}, 4, 4},
          PanelCase{37, 12, 12, {3}, 4, 4}, PanelCase{30, 32, 32, {-5}, 2, 2},
          PanelCase{33, 19, 32, {2}, 2, 32}, PanelCase{10, 12, 12, {-30}, 4, 4}}) {
      if (!is_used(c.group)) continue;
      SCOPED_TRACE(c.text());
      check_softmax_gradient(c);
    }
  });
}

TEST(CpuAttentionTile, RoundsWhatItTransposes) {
  if (!is_used(4)) GTEST_SKIP() << "this CPU does not multiply bf16";
  formats::testing::for_each_target([] {
    const int64_t rows = 21, columns = 10;
    const Numbers in = random_numbers(rows * columns, 5);
    std::vector<bf16> out(in.size(), unwritten);
    transpose(Transpose<float, bf16>{.rows = rows,
                                     .columns = columns,
                                     .factor = 0.7f,
                                     .in = in.data(),
                                     .ld_in = columns,
                                     .out = out.data(),
                                     .ld_out = rows});
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j)
        expect_code(out[static_cast<size_t>(j * rows + i)],
                    0.7f * in[static_cast<size_t>(i * columns + j)], "transposed");
    }
  });
}

TEST(CpuAttentionTile, NanStaysNan) {
  formats::testing::for_each_target([] {
    for (const int group : {2, 4}) {
      if (!is_used(group)) continue;
      const int64_t width = group == 2 ? 32 : 12;
      Numbers scores(static_cast<size_t>(4 * width), 1), maximum(static_cast<size_t>(width)),
          sum(maximum), correction(maximum);
      scores[1] = std::numeric_limits<float>::quiet_NaN();
      std::vector<bf16> found(scores.size());
      online_softmax({.keys = 4,
                      .width = width,
                      .mask = {none_hidden},
                      .scale = 1,
                      .scores = scores.data(),
                      .maximum = maximum.data(),
                      .sum = sum.data(),
                      .correction = correction.data()},
                     {.data = found.data(), .group = group, .k = 4});
      EXPECT_TRUE(std::isnan(float(found[static_cast<size_t>(group)])));
      EXPECT_FALSE(std::isnan(float(found[0])));
    }
  });
}

}  // namespace
}  // namespace binade::backend::cpu::attention::tile_test
