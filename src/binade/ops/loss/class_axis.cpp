#include "binade/ops/loss/class_axis.h"

#include "binade/ops/common.h"

namespace binade::ops {

int class_axis(const char* op, const Tensor& x, const Tensor& target,
               std::optional<int64_t> given) {
  require_defined(op, "target", target);
  if (given) return normalize_axis(op, *given, x.rank());
  const int last = x.rank() - 1;
  if (last < 2) return last;
  const auto fits = [&](int axis) {
    Shape rest = x.shape();
    rest.erase(axis);
    return target.shape() == (is_floating(target.dtype()) ? x.shape() : rest);
  };
  if (!fits(1)) return last;
  if (!fits(last)) return 1;
  fail(op, {.argument = "target",
            .expected = "a shape that tells the classes of " + describe(x) + " from other axes",
            .found = describe(target) + ", which fits axis 1 and the last one",
            .hint = "pass class_axis: 1 as in PyTorch, or -1"});
}

}  // namespace binade::ops
