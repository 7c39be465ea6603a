"""Learning rates by step, with PyTorch's names and order of arguments.

Each rate is a function of the steps so far, so that no rounding accumulates. Where a rate was changed
by something else, another scheduler or an assignment, the next one continues from there.
"""

import bisect
import math

from .. import _binade
from . import ReduceOnPlateau


class LRScheduler:
    """Sets the learning rate of every group, now and after each step().

    Subclasses define rate(base, step): the rate of a group that began with `base`.
    """

    # Whether a rate that was changed meanwhile is continued from, in proportion.
    _continues = True

    def __init__(self, optimizer, last_epoch=-1):
        if last_epoch != -1:
            _binade._fail(type(self).__name__, argument="last_epoch", expected="-1",
                          found=str(last_epoch), hint="continue by load_state_dict()")
        self.optimizer = optimizer
        self.base_lrs = [group.begin_schedule() for group in optimizer.param_groups]
        self.last_epoch = 0
        self._last_lr = list(self.base_lrs)
        self._apply()

    def rate(self, base, step):
        raise NotImplementedError(f"{type(self).__name__} has no rate()")

    def _rates(self, step):
        return [self.rate(base, step) for base in self.base_lrs]

    def _continued(self, place, present, before, rate):
        """The rate after `present`, which stands where `before` would stand without other changes."""
        return present * (rate / before) if before else rate

    def _apply(self):
        rates = self._rates(self.last_epoch)
        if self._continues:
            before = self._rates(self.last_epoch - 1) if self.last_epoch else self.base_lrs
            for i, group in enumerate(self.optimizer.param_groups):
                if group["lr"] != before[i]:
                    rates[i] = self._continued(i, group["lr"], before[i], rates[i])
        self._set(rates)

    def _set(self, rates):
        for group, lr in zip(self.optimizer.param_groups, rates):
            group["lr"] = lr
        self._last_lr = list(rates)

    def step(self):
        """After optimizer.step()."""
        self.last_epoch += 1
        self._apply()

    def get_last_lr(self):
        """The rates that this scheduler has set last, one per group."""
        return list(self._last_lr)

    def state_dict(self):
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs),
                "_last_lr": list(self._last_lr)}

    def load_state_dict(self, state_dict):
        self.last_epoch, self.base_lrs = state_dict["last_epoch"], list(state_dict["base_lrs"])
        self._set(state_dict.get("_last_lr") or self._rates(self.last_epoch))


class LambdaLR(LRScheduler):
    """base * lr_lambda(step); a function for all groups, or a list with one for each."""

    _continues = False

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self._lambdas = lr_lambda if isinstance(lr_lambda, (list, tuple)) \
            else [lr_lambda] * len(optimizer.param_groups)
        super().__init__(optimizer, last_epoch)

    def _rates(self, step):
        return [base * function(step) for base, function in zip(self.base_lrs, self._lambdas)]


class MultiplicativeLR(LRScheduler):
    """Times lr_lambda(step) at each step; a function for all groups, or a list with one for each."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self._lambdas = lr_lambda if isinstance(lr_lambda, (list, tuple)) \
            else [lr_lambda] * len(optimizer.param_groups)
        super().__init__(optimizer, last_epoch)

    def _apply(self):
        present = [group["lr"] for group in self.optimizer.param_groups]
        if self.last_epoch:
            present = [lr * function(self.last_epoch) for lr, function in zip(present, self._lambdas)]
        self._set(present)


class StepLR(LRScheduler):
    """Times gamma every step_size steps.

    >>> import binade as bn
    >>> optimizer = bn.optim.SGD([bn.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = bn.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     scheduler.step()
    >>> rates
    [1.0, 1.0, 0.5, 0.5]
    """

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base, step):
        return base * self.gamma ** (step // self.step_size)


class MultiStepLR(LRScheduler):
    """Times gamma at each of the milestones."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base, step):
        return base * self.gamma ** bisect.bisect_right(self.milestones, step)


class ConstantLR(LRScheduler):
    """Times `factor` for the first total_iters steps."""

    def __init__(self, optimizer, factor=1 / 3, total_iters=5, last_epoch=-1):
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, base, step):
        return base * self.factor if step < self.total_iters else base


class LinearLR(LRScheduler):
    """Times a factor that goes from start_factor to end_factor in total_iters steps."""

    def __init__(self, optimizer, start_factor=1 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, base, step):
        part = min(step, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * part)


class ExponentialLR(LRScheduler):
    """Times gamma at each step."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base, step):
        return base * self.gamma ** step


class PolynomialLR(LRScheduler):
    """Times (1 - step / total_iters)^power."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def rate(self, base, step):
        return base * (1 - min(step, self.total_iters) / self.total_iters) ** self.power


def _cosine(base, lowest, part):
    return lowest + (base - lowest) * (1 + math.cos(math.pi * part)) / 2


class CosineAnnealingLR(LRScheduler):
    """From the base rate down to eta_min in T_max steps, along half a cosine."""

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, base, step):
        return _cosine(base, self.eta_min, step / self.T_max)

    def _continued(self, place, present, before, rate):
        base, step = self.base_lrs[place], self.last_epoch
        if step == 0:
            return present
        if (step - 1 - self.T_max) % (2 * self.T_max) == 0:  # from the lowest point, a ratio to 0
            return present + (base - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2
        return self.eta_min + (present - self.eta_min) * (rate - self.eta_min) / (before - self.eta_min)


class CosineAnnealingWarmRestarts(LRScheduler):
    """CosineAnnealingLR that begins anew after T_0 steps, then after T_mult times as many."""

    _continues = False

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, base, step):
        length = self.T_0
        while step >= length:
            step -= length
            length *= self.T_mult
        return _cosine(base, self.eta_min, step / length)


class OneCycleLR(LRScheduler):
    """The 1cycle policy: up to max_lr and down again, the momentum the other way round. It has
    total_steps, or epochs * steps_per_epoch."""

    _continues = False

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None,
                 pct_start=0.3, anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85,
                 max_momentum=0.95, div_factor=25.0, final_div_factor=1e4, three_phase=False,
                 last_epoch=-1):
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                _binade._fail("OneCycleLR", argument="total_steps",
                              expected="a number, or epochs and steps_per_epoch", found="None")
            total_steps = epochs * steps_per_epoch
        self._cycle_momentum, self.total_steps = cycle_momentum, total_steps
        self._cycle = _binade.OneCycle(max_lr, total_steps, pct_start, anneal_strategy,
                                       base_momentum, max_momentum, div_factor, final_div_factor,
                                       three_phase)
        super().__init__(optimizer, last_epoch)

    def rate(self, base, step):
        if step > self.total_steps:
            raise ValueError(f"a cycle of {self.total_steps} steps has no step {step}")
        return self._cycle.at(step)

    def _apply(self):
        super()._apply()
        if self._cycle_momentum:
            self.optimizer.set_momentum(self._cycle.momentum_at(self.last_epoch))


class SequentialLR(LRScheduler):
    """Several schedulers one after another; the next begins at each of the milestones.

    >>> import binade as bn
    >>> from binade.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
    >>> optimizer = bn.optim.SGD([bn.ones(1, requires_grad=True)], lr=1.0)
    >>> warmup = LinearLR(optimizer, start_factor=0.1, total_iters=10)
    >>> scheduler = SequentialLR(optimizer, [warmup, CosineAnnealingLR(optimizer, 90)], [10])
    >>> scheduler.get_last_lr()
    [0.1]
    """

    _continues = False

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if len(milestones) != len(schedulers) - 1:
            _binade._fail("SequentialLR", argument="milestones",
                          expected=f"{len(schedulers) - 1}, one between two schedulers",
                          found=str(len(milestones)))
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        super().__init__(optimizer, last_epoch)

    def _rates(self, step):
        place = bisect.bisect_right(self._milestones, step)
        begin = self._milestones[place - 1] if place else 0
        return self._schedulers[place]._rates(step - begin)


class ChainedScheduler:
    """Several schedulers at once: each continues from the rates that the one before it has set."""

    def __init__(self, schedulers, optimizer=None):
        self._schedulers = list(schedulers)

    def step(self):
        """After optimizer.step()."""
        for scheduler in self._schedulers:
            scheduler.step()

    def get_last_lr(self):
        """The rates that were set last, one per group."""
        return self._schedulers[-1].get_last_lr()

    def state_dict(self):
        return {"schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict):
        for scheduler, state in zip(self._schedulers, state_dict["schedulers"]):
            scheduler.load_state_dict(state)


class ReduceLROnPlateau(ReduceOnPlateau):
    """ReduceOnPlateau under PyTorch's name."""
