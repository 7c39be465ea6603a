#include "binade/backend/cpu/step/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "binade/backend/cpu/rows/dense_rows.h"
#include "binade/base/parallel.h"

// Graves et al. 2006, in logarithms. A path visits the labels of the target with blanks between
// them and around: state s is a blank if s is even, else target[s / 2].
namespace binade::backend::cpu {
namespace {

template <class T>
constexpr T impossible = -std::numeric_limits<T>::infinity();

// log(exp(a) + exp(b) + exp(c))
template <class T>
T log_sum(T a, T b, T c = impossible<T>) {
  const T most = std::max({a, b, c});
  if (most == impossible<T>) return most;
  return most + std::log(std::exp(a - most) + std::exp(b - most) + std::exp(c - most));
}

// One batch entry.
template <class T>
struct Entry {
  const T* log_probs;  // of (0, entry); rows are `stride` apart
  int64_t stride;
  const int64_t* target;
  int64_t time, length, blank;

  Entry(const Ctc& args, int64_t n)
      : log_probs(args.log_probs.as<T>() + n * args.log_probs.shape[2]),
        stride(args.log_probs.shape[1] * args.log_probs.shape[2]),
        target(args.targets.as<int64_t>() + n * args.targets.shape[1]),
        time(args.input_lengths[n]),
        length(args.target_lengths[n]),
        blank(args.blank) {}

  int64_t states() const { return 2 * length + 1; }
  int64_t label(int64_t state) const { return state % 2 == 0 ? blank : target[state / 2]; }
  T at(int64_t t, int64_t state) const { return log_probs[t * stride + label(state)]; }
  // Whether a path may go from state - 2 to state: over a blank between different labels.
  bool may_skip_to(int64_t state) const {
    return state % 2 == 1 && state >= 2 && label(state) != label(state - 2);
  }
};

// alpha[t, s]: logarithm of the probability of all ways to be in state s at time t.
template <class T>
T run_forward(const Entry<T>& entry, T* alpha, int64_t width) {
  const int64_t states = entry.states();
  if (entry.time == 0) return entry.length == 0 ? T(0) : -impossible<T>;
  std::fill_n(alpha, width, impossible<T>);
  alpha[0] = entry.at(0, 0);
  if (states > 1) alpha[1] = entry.at(0, 1);
  for (int64_t t = 1; t < entry.time; ++t) {
    const T* last = alpha + (t - 1) * width;
    T* row = alpha + t * width;
    for (int64_t s = 0; s < states; ++s) {
      const T ways = log_sum(last[s], s > 0 ? last[s - 1] : impossible<T>,
                             entry.may_skip_to(s) ? last[s - 2] : impossible<T>);
      row[s] = ways + entry.at(t, s);
    }
  }
  const T* end = alpha + (entry.time - 1) * width;
  return -log_sum(end[states - 1], states > 1 ? end[states - 2] : impossible<T>);
}

// Subtracts factor * (probability of state s at time t) from the gradient of its label.
template <class T>
void run_backward(const Entry<T>& entry, const T* alpha, int64_t width, T loss, T factor,
                  T* gradient) {
  const int64_t states = entry.states();
  // beta[s]: logarithm of the probability to end well from state s on.
  std::vector<T> beta(static_cast<size_t>(states), impossible<T>), next(beta);
  for (int64_t s = std::max<int64_t>(states - 2, 0); s < states; ++s)
    beta[static_cast<size_t>(s)] = 0;
  for (int64_t t = entry.time - 1; t >= 0; --t) {
    if (t < entry.time - 1) {
      const auto onward = [&](int64_t s) {
        return s < states ? next[static_cast<size_t>(s)] + entry.at(t + 1, s) : impossible<T>;
      };
      for (int64_t s = 0; s < states; ++s) {
        beta[static_cast<size_t>(s)] =
            log_sum(onward(s), onward(s + 1),
                    s + 2 < states && entry.may_skip_to(s + 2) ? onward(s + 2) : impossible<T>);
      }
    }
    for (int64_t s = 0; s < states; ++s) {
      gradient[t * entry.stride + entry.label(s)] -=
          factor * std::exp(alpha[t * width + s] + beta[static_cast<size_t>(s)] + loss);
    }
    std::swap(beta, next);
  }
}

}  // namespace

void ctc(const Ctc& args) {
  const int64_t width = args.alpha.shape[2], rows = args.alpha.shape[1];
  with_compute_type("ctc_loss", args.log_probs.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(args.losses.shape[0], 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n)
        args.losses.as<T>()[n] =
            run_forward(Entry<T>(args, n), args.alpha.as<T>() + n * rows * width, width);
    });
  });
}

void ctc_backward(const CtcBackward& args) {
  const Ctc& forward = args.forward;
  const int64_t width = forward.alpha.shape[2], rows = forward.alpha.shape[1];
  with_compute_type("ctc_loss", forward.log_probs.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* const gradients = args.dlog_probs.as<T>();
    std::fill_n(gradients, args.dlog_probs.numel(), T(0));
    parallel_for(forward.losses.shape[0], 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const T loss = forward.losses.as<T>()[n];
        if (std::isinf(loss)) continue;
        run_backward(Entry<T>(forward, n), forward.alpha.as<T>() + n * rows * width, width, loss,
                     args.dlosses.as<T>()[n], gradients + n * forward.log_probs.shape[2]);
      }
    });
  });
}

}  // namespace binade::backend::cpu
