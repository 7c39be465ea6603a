#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "binade/amp/trace.h"
#include "binade/autograd/engine.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/gpu.h"
#include "binade/base/function_ref.h"
#include "binade/tensor/memory.h"
#include "ops/walk.h"
#include "support/values.h"

// The walk over the op table: every op of tensor/ops.def, by its description in ops/table.
namespace binade::optable {
namespace {

class OpForward : public testing::TestWithParam<const Description*> {};
class OpGradient : public testing::TestWithParam<const Description*> {};
class OpDifferences : public testing::TestWithParam<const Description*> {};
class OpMeta : public testing::TestWithParam<const Description*> {};
class OpThreads : public testing::TestWithParam<const Description*> {};

// The same on a GPU, where there is one.
class OnGpu : public testing::TestWithParam<const Description*> {
 protected:
  void SetUp() override {
    if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  }
};
class OpForwardGpu : public OnGpu {};
class OpGradientGpu : public OnGpu {};
class OpLargeGpu : public OnGpu {};

// Calls f for each case, type and layout of an op.
template <class F>
void for_each_run(const Description& description, F f) {
  for (const Case& test : description.cases) {
    for (const DType dtype : tested_types) {
      for (const Layout layout : layouts) {
        f(test, dtype, layout);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

void check_forward(const Description& description, Device device) {
  for_each_run(description, [&](const Case& test, DType dtype, Layout layout) {
    SCOPED_TRACE(title(description, test, dtype, layout));
    const Walked run = forward(description, test, dtype, layout, device);
    const Expected expected = expect(description, test, dtype, run);
    ASSERT_EQ(run.outputs.size(), expected.outputs.size());
    const PrecisionScope scope(precision_of(dtype, description.rounds == Rounds::each));
    for (size_t i = 0; i < run.outputs.size(); ++i) {
      const Tensor& y = run.outputs[i];
      ASSERT_EQ(y.shape(), expected.outputs[i].shape)
          << to_string(y.shape()) << " " << to_string(expected.outputs[i].shape);
      ASSERT_EQ(y.dtype(), description.result(dtype)) << name(y.dtype());
      ASSERT_EQ(difference(y, expected.outputs[i], result_unit(description)), "");
    }
  });
}

TEST_P(OpForward, IsRightInEveryTypeAndLayout) { check_forward(*GetParam(), Device::cpu()); }
TEST_P(OpForwardGpu, IsRightInEveryTypeAndLayout) { check_forward(*GetParam(), Device::cuda()); }

void check_gradient(const Description& description, Device device) {
  for_each_run(description, [&](const Case& test, DType dtype, Layout layout) {
    SCOPED_TRACE(title(description, test, dtype, layout));
    Walked run = forward(description, test, dtype, layout, device);
    const bool recorded = std::any_of(run.outputs.begin(), run.outputs.end(),
                                      [](const Tensor& y) { return y.requires_grad(); });
    ASSERT_EQ(recorded, info(description.op).differentiable);
    if (!recorded) return;
    const Expected expected = expect(description, test, dtype, run);
    backward(run);
    const PrecisionScope scope(precision_of(dtype, description.rounds == Rounds::each));
    for (size_t i = 0; i < run.inputs.size(); ++i) {
      const Tensor& x = run.inputs[i];
      if (!x.requires_grad()) continue;
      const Tensor gradient = x.grad();
      ASSERT_TRUE(gradient.defined()) << "input " << i;
      ASSERT_EQ(gradient.shape(), x.shape());
      ASSERT_EQ(gradient.dtype(), accumulation_type(x.dtype()));
      ASSERT_EQ(difference(gradient, expected.gradients[i], gradient_unit(description)), "")
          << "input " << i;
    }
  });
}

TEST_P(OpGradient, IsTheReferencesInEveryTypeAndLayout) {
  check_gradient(*GetParam(), Device::cpu());
}
TEST_P(OpGradientGpu, IsTheReferencesInEveryTypeAndLayout) {
  check_gradient(*GetParam(), Device::cuda());
}

// Shapes with whole vectors and many blocks. Both sides round sums of a few thousand terms in
// another order: 64 units of the type, measured against the tensor's typical size.
void expect_close(const Tensor& found, const Tensor& expected, DType dtype) {
  ASSERT_EQ(found.defined(), expected.defined());
  if (!found.defined()) return;
  ASSERT_EQ(found.dtype(), expected.dtype());
  const std::vector<double> a = test::read(found), b = test::read(expected);
  double square = 0;
  for (const double x : b) square += std::isfinite(x) ? x * x : 0;
  const double typical = std::sqrt(square / static_cast<double>(std::max<size_t>(b.size(), 1)));
  const double unit = 64 * std::max(epsilon(dtype), is_floating(found.dtype()) ? 0 : 1e-9);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    ASSERT_LE(std::abs(a[i] - b[i]), unit * (std::abs(b[i]) + typical)) << "element " << i;
  }
}

TEST_P(OpLargeGpu, IsTheCpus) {
  const Description& description = *GetParam();
  for (const DType dtype : tested_types) {
    SCOPED_TRACE(title(description, description.large, dtype, Layout::dense));
    const auto run_on = [&](Device device) {
      Walked run = forward(description, description.large, dtype, Layout::dense, device);
      backward(run);
      return run;
    };
    const Walked expected = run_on(Device::cpu()), found = run_on(Device::cuda());
    for (size_t i = 0; i < found.outputs.size(); ++i) {
      SCOPED_TRACE("output " + std::to_string(i));
      expect_close(found.outputs[i], expected.outputs[i], dtype);
    }
    for (size_t i = 0; i < found.inputs.size(); ++i) {
      SCOPED_TRACE("gradient " + std::to_string(i));
      expect_close(found.inputs[i].grad(), expected.inputs[i].grad(), dtype);
    }
    // And again, the same bits.
    const Walked again = run_on(Device::cuda());
    for (size_t i = 0; i < found.outputs.size(); ++i)
      EXPECT_TRUE(test::same_bits(found.outputs[i], again.outputs[i])) << "output " << i;
    for (size_t i = 0; i < found.inputs.size(); ++i)
      EXPECT_TRUE(test::same_bits(found.inputs[i].grad(), again.inputs[i].grad())) << "input " << i;
  }
}

// d/dx by central differences with steps h and 2 h. What the two differ by is three times the error
// that the step makes; the rest is rounding of the results, divided by the step.
TEST_P(OpDifferences, AgreeWithTheGradientInF64) {
  const Description& description = *GetParam();
  if (!info(description.op).differentiable) return;
  for (const Case& test : description.cases) {
    SCOPED_TRACE(title(description, test, DType::f64, Layout::dense));
    Walked run = forward(description, test, DType::f64, Layout::dense);
    const Expected expected = expect(description, test, DType::f64, run);
    backward(run);
    std::vector<std::vector<double>> seeds;
    double noise = 0;  // of the sum over outputs
    for (size_t o = 0; o < run.outputs.size(); ++o) {
      seeds.push_back(run.seeds[o].defined() ? test::read(run.seeds[o]) : std::vector<double>());
      for (size_t i = 0; i < seeds[o].size(); ++i) {
        const Real& y = expected.outputs[o].values[i];
        noise += std::abs(seeds[o][i]) * (y.error + 0x1p-52 * std::abs(y.value));
      }
    }
    std::vector<std::vector<double>> values = draw_inputs(description.op, test);
    const auto evaluate = [&] {
      const NoGrad plain;
      const std::vector<Tensor> outputs =
          test.call(make_all(test, values, DType::f64, Layout::dense));
      double total = 0;
      for (size_t o = 0; o < outputs.size(); ++o) {
        if (seeds[o].empty()) continue;
        const std::vector<double> y = test::read(outputs[o]);
        for (size_t i = 0; i < y.size(); ++i) total += seeds[o][i] * y[i];
      }
      return total;
    };
    for (size_t i = 0; i < run.inputs.size(); ++i) {
      if (!run.inputs[i].requires_grad()) continue;
      const std::vector<double> gradient = test::read(run.inputs[i].grad());
      for (size_t e = 0; e < gradient.size(); ++e) {
        const double x = values[i][e];
        constexpr double h = 0x1p-14;
        const auto slope = [&](double step) {
          values[i][e] = x + step;
          const double above = evaluate();
          values[i][e] = x - step;
          const double below = evaluate();
          values[i][e] = x;
          return (above - below) / (2 * step);
        };
        const double fine = slope(h), coarse = slope(2 * h);
        ASSERT_NEAR(gradient[e], fine, std::abs(coarse - fine) + 2 * noise / h)
            << "input " << i << " element " << e;
      }
    }
  }
}

struct Books {
  std::vector<int64_t> live, peak;

  static Books since(const memory::Statistics& before, Device device) {
    const memory::Statistics now = memory::statistics(device);
    Books books;
    for (size_t i = 0; i < memory::category_count; ++i) {
      books.live.push_back(now.live[i] - before.live[i]);
      books.peak.push_back(now.at_peak[i] - before.live[i]);
    }
    return books;
  }
  bool operator==(const Books&) const = default;
};

TEST_P(OpMeta, HasTheShapesAndTheMemoryOfTheCpu) {
  const Description& description = *GetParam();
  const auto run_on = [&](const Case& test, DType dtype, Layout layout, Device device) {
    const auto values = draw_inputs(description.op, test);
    const std::vector<Tensor> inputs = make_all(test, values, dtype, layout, device);
    std::vector<Books> books;
    std::vector<std::string> results;
    const memory::Statistics before = memory::statistics(device);
    memory::reset_peak(device);
    {
      const std::vector<Tensor> outputs = test.call(inputs);
      books.push_back(Books::since(before, device));
      std::vector<Tensor> seeds;
      for (const Tensor& y : outputs) {
        results.push_back(to_string(y.shape()) + " " + std::string(name(y.dtype())) + " " +
                          to_string(y.strides()));
        seeds.push_back(y.requires_grad() ? Tensor::empty(y.shape(), y.dtype(), device) : Tensor());
        if (seeds.back().defined() && device.is_cpu()) test::fill(seeds.back(), 1);
      }
      autograd::run_backward(outputs, seeds);
      books.push_back(Books::since(before, device));
    }
    books.push_back(Books::since(before, device));
    return std::pair(books, results);
  };
  std::vector<Case> cases = description.cases;
  cases.push_back(description.large);
  for (const Case& test : cases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const Layout layout : layouts) {
        if (test.name == description.large.name && layout != Layout::sliced) continue;
        SCOPED_TRACE(title(description, test, dtype, layout));
        const auto [real_books, real_results] = run_on(test, dtype, layout, Device::cpu());
        const auto [books, results] = run_on(test, dtype, layout, Device::meta());
        ASSERT_EQ(results, real_results);
        for (size_t i = 0; i < books.size(); ++i) {
          ASSERT_EQ(books[i].live, real_books[i].live) << "after stage " << i;
          ASSERT_EQ(books[i].peak, real_books[i].peak) << "after stage " << i;
        }
      }
    }
  }
}

TEST_P(OpThreads, GiveTheSameBits) {
  const Description& description = *GetParam();
  for (const DType dtype : tested_types) {
    SCOPED_TRACE(title(description, description.large, dtype, Layout::dense));
    const auto run_with = [&](int threads) {
      const ThreadCount count(threads);
      Walked run = forward(description, description.large, dtype, Layout::dense);
      backward(run);
      return run;
    };
    const Walked one = run_with(1);
    for (const int threads : {2, 8}) {
      const Walked many = run_with(threads);
      for (size_t i = 0; i < one.outputs.size(); ++i) {
        ASSERT_TRUE(test::same_bits(one.outputs[i], many.outputs[i]))
            << "output " << i << " with " << threads << " threads";
      }
      for (size_t i = 0; i < one.inputs.size(); ++i) {
        ASSERT_TRUE(test::same_bits(one.inputs[i].grad(), many.inputs[i].grad()))
            << "gradient " << i << " with " << threads << " threads";
      }
    }
  }
}

const Description* find(Op op) {
  for (const Description& description : descriptions()) {
    if (description.op == op) return &description;
  }
  return nullptr;
}

template <class F>
bool any_case(const Description& description, F f) {
  return std::any_of(description.cases.begin(), description.cases.end(), f);
}

bool all_inputs(const Case& test, FunctionRef<bool(const Shape&)> f) {
  return std::all_of(test.inputs.begin(), test.inputs.end(),
                     [&](const Input& input) { return f(input.shape); });
}

TEST(OpTable, DescribesEveryOp) {
  for (const OpInfo& op : all_ops()) {
    const Description* description = find(op.op);
    ASSERT_NE(description, nullptr) << op.name << " has no description in tests/ops/table";
    if (op.differentiable) continue;
    EXPECT_FALSE(op.no_gradient_reason.empty()) << op.name;
  }
  EXPECT_EQ(descriptions().size(), all_ops().size());
}

TEST(OpTable, ChecksTheGradientOfEveryOpThatHasOne) {
  for (const Description& description : descriptions()) {
    if (!info(description.op).differentiable) continue;
    EXPECT_TRUE(any_case(description, [](const Case& test) {
      return std::any_of(test.inputs.begin(), test.inputs.end(), [](const Input& input) {
        return input.kind == Input::Kind::variable && input.shape.numel() > 1;
      });
    })) << name(description.op);
  }
}

TEST(OpTable, TriesEmptySingleAndOddShapes) {
  const auto odd = [](const Shape& shape) {
    return std::any_of(shape.begin(), shape.end(),
                       [](int64_t size) { return size > 1 && size % 2 == 1; });
  };
  for (const Description& description : descriptions()) {
    const auto has_empty = [](const Case& test) {
      return !all_inputs(test, [](const Shape& shape) { return shape.numel() > 0; });
    };
    const auto is_single = [](const Case& test) {
      return all_inputs(test, [](const Shape& shape) { return shape.numel() == 1; });
    };
    const auto is_odd = [&](const Case& test) { return odd(test.inputs[0].shape); };
    EXPECT_EQ(any_case(description, has_empty), description.no_empty.empty())
        << name(description.op);
    EXPECT_EQ(any_case(description, is_single), description.no_single.empty())
        << name(description.op);
    EXPECT_TRUE(any_case(description, is_odd)) << name(description.op);
    EXPECT_FALSE(all_inputs(description.large, [](const Shape& shape) {
      return shape.numel() < 1000;
    })) << name(description.op);
  }
}

// Each description calls the op it claims to.
TEST(OpTable, RunsWhatItNames) {
  for (const Description& description : descriptions()) {
    EXPECT_TRUE(any_case(description, [&](const Case& test) {
      std::vector<Tensor> outputs;
      const std::vector<Tensor> inputs =
          make_all(test, draw_inputs(description.op, test), DType::f32, Layout::dense);
      const auto trace = amp::explain([&] { outputs = test.call(inputs); });
      const bool traced = std::any_of(trace.begin(), trace.end(), [&](const amp::TracedOp& op) {
        return op.op == description.op;
      });
      const auto& meta = outputs[0].autograd_meta();
      return traced ||
             (meta != nullptr && meta->node != nullptr && meta->node->op == description.op);
    })) << name(description.op);
  }
}

// Were every result of an op off by a little, would the tolerances notice?
TEST(OpTable, NoticesWrongResults) {
  const auto noticed = [](const Tensor& found, const Array& expected, double unit, double factor) {
    Array wrong = expected;
    for (Real& value : wrong.values)
      value.value = value.value == 0 ? factor - 1 : value.value * factor;
    return difference(found, wrong, unit) != "";
  };
  for (const Description& description : descriptions()) {
    for (const DType dtype : tested_types) {
      const double factor = dtype == DType::f32 ? 1 + 1e-4 : dtype == DType::f64 ? 1 + 1e-12 : 1.25;
      bool result = false, gradient = !info(description.op).differentiable;
      for (const Case& test : description.cases) {
        Walked run = forward(description, test, dtype, Layout::dense);
        const Expected expected = expect(description, test, dtype, run);
        backward(run);
        const PrecisionScope scope(precision_of(dtype, description.rounds == Rounds::each));
        for (size_t i = 0; i < run.outputs.size(); ++i) {
          result |= noticed(run.outputs[i], expected.outputs[i], result_unit(description), factor);
        }
        for (size_t i = 0; i < run.inputs.size(); ++i) {
          if (run.inputs[i].grad().defined())
            gradient |= noticed(run.inputs[i].grad(), expected.gradients[i],
                                gradient_unit(description), factor);
        }
      }
      EXPECT_TRUE(result) << name(description.op) << " " << name(dtype);
      EXPECT_TRUE(gradient) << name(description.op) << " " << name(dtype);
    }
  }
}

std::vector<const Description*> all(const std::vector<Description>& descriptions) {
  std::vector<const Description*> list;
  for (const Description& description : descriptions) list.push_back(&description);
  return list;
}

std::string op_name(const testing::TestParamInfo<const Description*>& info) {
  return std::string(name(info.param->op));
}

INSTANTIATE_TEST_SUITE_P(Table, OpForward, testing::ValuesIn(all(descriptions())), op_name);
INSTANTIATE_TEST_SUITE_P(Table, OpGradient, testing::ValuesIn(all(descriptions())), op_name);
INSTANTIATE_TEST_SUITE_P(Table, OpDifferences, testing::ValuesIn(all(descriptions())), op_name);
INSTANTIATE_TEST_SUITE_P(Table, OpMeta, testing::ValuesIn(all(descriptions())), op_name);
INSTANTIATE_TEST_SUITE_P(Table, OpThreads, testing::ValuesIn(all(descriptions())), op_name);

INSTANTIATE_TEST_SUITE_P(Table, OpForwardGpu, testing::ValuesIn(all(descriptions())), op_name);
INSTANTIATE_TEST_SUITE_P(Table, OpGradientGpu, testing::ValuesIn(all(descriptions())), op_name);
INSTANTIATE_TEST_SUITE_P(Table, OpLargeGpu, testing::ValuesIn(all(descriptions())), op_name);

INSTANTIATE_TEST_SUITE_P(Composites, OpForward, testing::ValuesIn(all(composites())), op_name);
INSTANTIATE_TEST_SUITE_P(Composites, OpGradient, testing::ValuesIn(all(composites())), op_name);
INSTANTIATE_TEST_SUITE_P(Composites, OpDifferences, testing::ValuesIn(all(composites())), op_name);
INSTANTIATE_TEST_SUITE_P(Composites, OpThreads, testing::ValuesIn(all(composites())), op_name);

}  // namespace
}  // namespace binade::optable
