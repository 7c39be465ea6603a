#include "binade/ops/loss/ctc_loss.h"

#include <algorithm>

#include "binade/backend/capabilities.h"
#include "binade/ops/common.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"

namespace binade {
namespace {

using namespace ops;

void check_lengths(const char* argument, const std::vector<int64_t>& lengths, int64_t batch,
                   int64_t most) {
  const auto bad = std::find_if(lengths.begin(), lengths.end(),
                                [=](int64_t length) { return length < 0 || length > most; });
  if (static_cast<int64_t>(lengths.size()) == batch && bad == lengths.end()) return;
  fail("ctc_loss", {.argument = argument,
                    .expected = std::to_string(batch) + " lengths of 0 to " + std::to_string(most),
                    .found = bad == lengths.end() ? std::to_string(lengths.size()) + " lengths"
                                                  : std::to_string(*bad)});
}

// The labels that count, on the host.
void check_labels(const Tensor& targets, const std::vector<int64_t>& lengths, int64_t classes,
                  int64_t blank) {
  for (size_t n = 0; n < lengths.size(); ++n) {
    const int64_t* row = targets.data<int64_t>() + static_cast<int64_t>(n) * targets.size(1);
    for (int64_t i = 0; i < lengths[n]; ++i) {
      if (row[i] >= 0 && row[i] < classes && row[i] != blank) continue;
      fail("ctc_loss", {.argument = "targets",
                        .expected = "classes below " + std::to_string(classes) +
                                    " other than the blank, " + std::to_string(blank),
                        .found = std::to_string(row[i]) + " in entry " + std::to_string(n)});
    }
  }
}

void check_ctc(const Tensor& log_probs, const Tensor& targets, const CtcLengths& lengths,
               int64_t blank) {
  require_compute("ctc_loss", "log_probs", log_probs);
  require_rank("ctc_loss", "log_probs", log_probs, 3);
  require_rank("ctc_loss", "targets", targets, 2);
  const int64_t batch = log_probs.size(1), classes = log_probs.size(2);
  if (targets.dtype() != DType::i64 || targets.size(0) != batch)
    fail("ctc_loss", {.argument = "targets",
                      .expected = "i64 [" + std::to_string(batch) + ", length]",
                      .found = describe(targets)});
  require_device("ctc_loss", "targets", targets, log_probs);
  if (blank < 0 || blank >= std::max<int64_t>(classes, 1))
    fail("ctc_loss", {.argument = "blank",
                      .expected = "a class of " + describe(log_probs),
                      .found = std::to_string(blank)});
  check_lengths("input lengths", lengths.input, batch, log_probs.size(0));
  check_lengths("target lengths", lengths.target, batch, targets.size(1));
}

// A dense copy on a device with kernels.
Tensor readable(const Tensor& x) {
  const bool stays = backend::capabilities(x.device()).has_sequential_kernels;
  return dense(stays ? x : to(x.detach(), Device::cpu()));
}

// The loss of each batch entry.
Tensor losses_of(const Tensor& log_probs, const Tensor& targets, const CtcLengths& lengths,
                 int64_t blank) {
  const Call call(Op::ctc_loss, {log_probs});
  const Tensor x = converted(readable(call[0]), accumulation_type(call[0])),
               labels = readable(targets);
  if (backend::capabilities(labels.device()).is_host_readable)
    check_labels(labels, lengths.target, x.size(2), blank);
  const int64_t batch = x.size(1);
  const Tensor losses = Tensor::empty({batch}, x.dtype(), x.device());
  const Tensor alpha =
      Tensor::empty({batch, x.size(0), 2 * labels.size(1) + 1}, x.dtype(), x.device());
  // Without the graph: the backward is part of it, and would keep itself alive.
  const auto arguments = [=, losses = losses.detach()](const Tensor& in, const CtcLengths& of) {
    return backend::Ctc{.log_probs = in,
                        .targets = labels,
                        .input_lengths = of.input.data(),
                        .target_lengths = of.target.data(),
                        .blank = blank,
                        .losses = losses,
                        .alpha = alpha};
  };
  backend::of(x).loss.ctc(arguments(x, lengths));
  return call.result(
      to(losses, log_probs.device()), [=, x = Saved(x)](const Tensor& dy, GradSlots dx) {
        const Tensor gradient = Tensor::empty(x->shape(), x->dtype(), x->device());
        backend::of(gradient).loss.ctc_backward({.forward = arguments(x, lengths),
                                                 .dlosses = converted(readable(dy), x->dtype()),
                                                 .dlog_probs = gradient});
        dx[0].add(to(gradient, dy.device()));
      });
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const CtcLengths& lengths,
                CtcOptions options) {
  check_ctc(log_probs, targets, lengths, options.blank);
  Tensor losses = losses_of(log_probs, targets, lengths, options.blank);
  if (options.zero_infinity)
    losses = where(is_inf(losses), full({}, 0, losses.dtype(), losses.device()), losses);
  if (options.reduce != Reduce::mean) return reduced_loss(losses, options.reduce);
  std::vector<double> divisors(lengths.target.begin(), lengths.target.end());
  for (double& divisor : divisors) divisor = std::max(divisor, 1.0);
  return reduced_loss(losses / tensor(divisors, losses.shape(), losses.dtype(), losses.device()),
                      Reduce::mean);
}

}  // namespace binade
