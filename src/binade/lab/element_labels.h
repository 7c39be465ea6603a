#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "binade/autograd/op.h"
#include "binade/tensor/tensor.h"

namespace binade::lab {

// Labels of single elements. They belong to the storage, so that views share them.
class ElementLabels {
 public:
  static constexpr int none = -1;

  bool contains(const Tensor& x) const { return entries_.contains(x.storage().get()); }
  // The label of each element in row-major order, or none.
  std::vector<int> of(const Tensor& x) const;
  // Sets the labels that are not none. Keeps the storage alive, so that its address stays unique.
  void set(const Tensor& x, std::span<const int> labels);

 private:
  struct Entry {
    std::shared_ptr<Storage> storage;
    std::vector<int> labels;  // by element of the storage
  };
  std::unordered_map<const Storage*, Entry> entries_;
};

// Which elements of an op's inputs one element of its result depends on.
enum class Dependency : uint8_t {
  element,  // those at the same (broadcast) index
  row,      // of the first input, those with the same index but for the last axis; others whole
  batch,    // of the first input, those with the same index in the first axis; others whole
  whole,    // all
  copy,     // one element of the same value, at another index
};
Dependency dependency_of(Op op);

// The elements of an input that element `flat` of a result depends on, as a range of its flat
// indices; both in row-major order. `first`: whether it is the op's first input.
struct ElementRange {
  int64_t begin, end;
};
ElementRange elements_behind(Dependency dependency, bool first, const Shape& input,
                             const Shape& result, int64_t flat);

}  // namespace binade::lab
