// First spellings of LibTorch users, with PyTorch's values (tests/golden/spellings.py).
#include "from_libtorch/spellings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "io/temporary_folder.h"
#include "support/paths.h"

namespace binade::spellings {

void ramp(const nn::Module& module) {
  const NoGrad no_grad;
  for (const Tensor& parameter : module.parameters()) {
    const Tensor line = arange(parameter.numel()) * 7 % 11;
    copy_(parameter, reshape(cast(line, DType::f32) / 8 - 0.5, parameter.shape()));
  }
}

namespace {

Tensor pattern(const Shape& shape, int64_t factor, int64_t modulus, double divisor) {
  const Tensor line = arange(shape.numel()) * factor % modulus;
  return reshape(cast(line, DType::f32) / divisor - 1, shape);
}

Given given(const std::string& path) {
  Given g;
  g.x = tensor({{0.5, -1.25, 2.0}, {3.5, -0.75, 1.0}});
  g.y = tensor({{0.5, 4.0, -1.5}, {-2.0, 0.25, 3.0}});
  g.w = (g.x * 0.5 + 1).requires_grad_();
  g.A = tensor({{1.0, -2.0}, {0.5, 3.0}, {-1.5, 0.25}});
  g.v = tensor({1.5, -0.5, 4.0});
  g.i = tensor({2, 0, 1});
  g.q = tensor({3, 1, 4, 1});
  g.m = tensor({{true, false, false}, {false, true, true}});
  g.logits = tensor({{1.0, -0.5, 0.25}, {0.0, 2.0, -1.0}, {0.5, 0.5, 1.5}, {-2.0, 1.0, 0.75}});
  g.labels = tensor({2, 0, 1, 1});
  g.img = pattern({2, 3, 8, 8}, 37, 101, 50);
  g.kernel = pattern({4, 3, 3, 3}, 23, 47, 23);
  g.path = path;
  return g;
}

bool close(double found, double expected) {
  if (std::isnan(expected) || std::isinf(expected))
    return std::isnan(expected) ? std::isnan(found) : found == expected;
  return std::abs(found - expected) <= 2e-6 + 2e-5 * std::abs(expected);
}

std::string numbers_of(const Tensor& x) {
  std::ostringstream out;
  out << name(x.dtype()) << ' ' << to_string(x.shape());
  for (const double one : to_vector(x)) out << ' ' << one;
  return out.str();
}

// Whether a value is the recorded one: type and shape exactly, numbers nearly.
bool same(const Shown& found, const std::string& expected) {
  if (!found.tensor) {
    if (!found.number) return found.text == expected;
    return close(*found.number, std::strtod(expected.c_str(), nullptr));
  }
  const std::string head =
      std::string(name(found.tensor->dtype())) + ' ' + to_string(found.tensor->shape());
  if (!expected.starts_with(head)) return false;
  std::istringstream rest(expected.substr(head.size()));
  std::string word;
  for (const double one : to_vector(*found.tensor)) {
    if (!(rest >> word) || !close(one, std::strtod(word.c_str(), nullptr))) return false;
  }
  return !(rest >> word);
}

std::string shown(const Shown& found) {
  if (found.tensor) return numbers_of(*found.tensor);
  return found.number ? std::to_string(*found.number) : found.text;
}

// Runs all rows and returns how many have PyTorch's value.
size_t run(const std::vector<Row>& all) {
  const testing::TemporaryFolder folder;
  size_t good = 0;
  for (const Row& row : all) {
    try {
      Given g = given((folder / "saved.pt").string());
      const Shown found = row.run(g);
      if (same(found, row.expected))
        ++good;
      else
        ADD_FAILURE() << row.text << "\n  PyTorch: " << row.expected
                      << "\n  found:   " << shown(found);
    } catch (const std::exception& error) {
      ADD_FAILURE() << row.text << "\n  PyTorch: " << row.expected << "\n  " << error.what();
    }
  }
  return good;
}

TEST(LibTorchSpellings, HavePyTorchsValues) {
  const size_t good = run(rows()), total = rows().size() + others().size();
  RecordProperty("spellings", static_cast<int>(total));
  EXPECT_GE(total, 600u);
  EXPECT_GE(static_cast<double>(good), 0.85 * static_cast<double>(total));
}

// Written after everything else was done, and kept as it was found.
TEST(LibTorchSpellings, HoldForASampleNobodyHadSeen) {
  const size_t good = run(unseen_rows()), total = unseen_rows().size() + unseen_others().size();
  EXPECT_GE(total, 60u);
  EXPECT_GE(static_cast<double>(good), 0.85 * static_cast<double>(total));
}

// What a stranger wrote afterwards, with rare functions and arguments by position.
TEST(LibTorchSpellings, HoldForASecondSample) {
  const size_t good = run(second_rows()), total = second_rows().size() + second_others().size();
  EXPECT_GE(total, 700u);
  EXPECT_GE(static_cast<double>(good), 0.9 * static_cast<double>(total));
}

}  // namespace
}  // namespace binade::spellings
