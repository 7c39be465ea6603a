#pragma once

#include <binade/torch.h>

#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

// What rows of spellings.inc use: the tensors of tests/golden/spellings.py and small modules.
namespace torch = binade::torch;
namespace at = binade::at;
namespace c10 = binade::c10;
namespace F = torch::nn::functional;

namespace binade::spellings {

using torch::indexing::Ellipsis;
using torch::indexing::None;
using torch::indexing::Slice;

struct Given {
  Tensor x, y, w, A, v, i, q, m, logits, labels, img, kernel;
  std::string path;
};

// A value as the recorded ones are written: numbers in tensors are compared with a tolerance.
class Shown {
 public:
  Shown(const Tensor& x) : tensor(x) {}
  Shown(const Shape& shape) : text(to_string(shape)) {}
  Shown(std::string text) : text(std::move(text)) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Shown(T value) : number(static_cast<double>(value)) {}

  std::optional<Tensor> tensor;
  std::optional<double> number;
  std::string text;
};

struct Row {
  const char* text;
  const char* expected;
  Shown (*run)(Given&);
};
std::vector<Row> rows();
std::vector<Row> unseen_rows();
std::vector<Row> second_rows();
// The texts of rows that are not compiled.
std::vector<const char*> others();
std::vector<const char*> unseen_others();
std::vector<const char*> second_others();

// Parameters that no random numbers decide.
void ramp(const nn::Module& module);

struct Net : torch::nn::Module {
  Net() {
    fc1 = register_module("fc1", torch::nn::Linear(3, 3));
    fc2 = register_module("fc2", torch::nn::Linear(3, 2));
  }
  Tensor forward(Tensor x) { return fc2->forward(torch::relu(fc1->forward(x))); }

  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
};

struct Scale : torch::nn::Module {
  Scale() {
    factor = register_parameter("factor", torch::arange(3, torch::kFloat));
    offset = register_buffer("offset", torch::zeros({3}));
  }
  Tensor forward(Tensor x) { return x * factor + offset; }

  Tensor factor, offset;
};

// The rows of a tensor with their numbers.
struct Rows : torch::data::datasets::Dataset<Rows> {
  explicit Rows(Tensor rows) : rows(std::move(rows)) {}
  torch::data::Example<> get(size_t index) override {
    return {rows[static_cast<int64_t>(index)], torch::tensor(static_cast<int64_t>(index))};
  }
  std::optional<size_t> size() const override { return static_cast<size_t>(rows.size(0)); }

  Tensor rows;
};

}  // namespace binade::spellings
