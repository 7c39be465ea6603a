#include "binade/ops/loss/ctc_loss.h"

#include "binade/ops/create/create.h"
#include "ops/table/description.h"

namespace binade::optable {
namespace {

// The sum over all paths, one by one: of all sequences of classes, those that become the target
// when repeated labels are merged and blanks removed.
Real path_sum(const Array& x, int64_t n, int64_t time, const std::vector<int64_t>& target,
              int64_t blank) {
  const int64_t classes = x.size(2);
  std::vector<Real> paths;
  Shape all;
  for (int64_t t = 0; t < time; ++t) all.push_back(classes);
  for_each_index(all, [&](const Shape& path) {
    std::vector<int64_t> labels;
    std::vector<Real> terms;
    for (int t = 0; t < path.rank(); ++t) {
      terms.push_back(x({t, n, path[t]}));
      if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
    }
    if (labels == target) paths.push_back(exp(sum(terms)));
  });
  return -log(sum(paths));
}

struct Batch {
  int64_t time, classes, blank;
  std::vector<int64_t> input_lengths;
  std::vector<std::vector<int64_t>> targets;
};

Case ctc_case(const std::string& name, const Batch& b, Reduce reduce) {
  int64_t longest = 0;
  CtcLengths lengths{b.input_lengths, {}};
  for (const auto& target : b.targets) {
    lengths.target.push_back(static_cast<int64_t>(target.size()));
    longest = std::max(longest, lengths.target.back());
  }
  const auto batch = static_cast<int64_t>(b.targets.size());
  return {name,
          {{{b.time, batch, b.classes}, {.low = -3, .high = -0.1}}},
          call1([=](const Tensor& x) {
            std::vector<int64_t> padded;
            for (std::vector<int64_t> target : b.targets) {
              target.resize(static_cast<size_t>(longest), b.blank);
              padded.insert(padded.end(), target.begin(), target.end());
            }
            return ctc_loss(x, tensor(padded, {batch, longest}, x.device()), lengths,
                            {.reduce = reduce, .blank = b.blank});
          }),
          reference1([=](const Array& x) {
            std::vector<Real> losses;
            for (size_t n = 0; n < b.targets.size(); ++n) {
              const Real loss =
                  path_sum(x, static_cast<int64_t>(n), b.input_lengths[n], b.targets[n], b.blank);
              const auto length = static_cast<double>(std::max<size_t>(b.targets[n].size(), 1));
              losses.push_back(reduce == Reduce::mean ? loss / length : loss);
            }
            if (reduce == Reduce::none) return Array({batch}, losses);
            return Array({}, {reduce == Reduce::mean ? mean(losses) : sum(losses)});
          })};
}

}  // namespace

std::vector<Description> ctc_loss_ops() {
  std::vector<std::vector<int64_t>> many(40, {1, 2, 2, 5, 3});
  return {
      {.op = Op::ctc_loss,
       .cases = {ctc_case("empty", {3, 4, 0, {}, {}}, Reduce::none),
                 ctc_case("one", {1, 1, 0, {1}, {{}}}, Reduce::none),
                 ctc_case("odd", {5, 3, 0, {5, 4}, {{1, 2}, {2}}}, Reduce::none),
                 ctc_case("repeated", {5, 3, 0, {5, 5, 3}, {{1, 1}, {2, 1, 2}, {}}}, Reduce::sum),
                 ctc_case("other_blank", {3, 4, 2, {3, 2}, {{0, 3}, {1}}}, Reduce::mean),
                 ctc_case("mean", {5, 3, 1, {4, 5}, {{0, 2, 0}, {2}}}, Reduce::mean)},
       .large = ctc_case("large", {37, 7, 0, std::vector<int64_t>(40, 37), many}, Reduce::mean),
       .narrow_gradients = true,
       .result = accumulation_type}};
}

}  // namespace binade::optable
