"""Learning rates by step, with PyTorch's names and order of arguments.

Each rate is a function of the steps so far, not of the last rate, so that nothing accumulates.
"""

import bisect
import math

from .. import _binade
from . import ReduceOnPlateau


class LRScheduler:
    """Sets the learning rate of every group, now and after each step().

    Subclasses define rate(base, step): the rate of a group that began with `base`.
    """

    def __init__(self, optimizer, last_epoch=-1):
        if last_epoch != -1:
            _binade._fail(type(self).__name__, argument="last_epoch", expected="-1",
                          found=str(last_epoch), hint="continue by load_state_dict()")
        self.optimizer = optimizer
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = 0
        self._apply()

    def rate(self, base, step):
        raise NotImplementedError(f"{type(self).__name__} has no rate()")

    def _rates(self, step):
        return [self.rate(base, step) for base in self.base_lrs]

    def _apply(self):
        for group, lr in zip(self.optimizer.param_groups, self._rates(self.last_epoch)):
            group["lr"] = lr

    def step(self):
        """After optimizer.step()."""
        self.last_epoch += 1
        self._apply()

    def get_last_lr(self):
        """The rates in use, one per group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self):
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state_dict):
        self.last_epoch, self.base_lrs = state_dict["last_epoch"], list(state_dict["base_lrs"])
        self._apply()


class LambdaLR(LRScheduler):
    """base * lr_lambda(step); a function for all groups, or a list with one for each."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self._lambdas = lr_lambda if isinstance(lr_lambda, (list, tuple)) \
            else [lr_lambda] * len(optimizer.param_groups)
        super().__init__(optimizer, last_epoch)

    def _rates(self, step):
        return [base * function(step) for base, function in zip(self.base_lrs, self._lambdas)]


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


class CosineAnnealingWarmRestarts(LRScheduler):
    """CosineAnnealingLR that begins anew after T_0 steps, then after T_mult times as many."""

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
    """The 1cycle policy: up to max_lr and down again, the momentum the other way round."""

    def __init__(self, optimizer, max_lr, total_steps, pct_start=0.3, anneal_strategy="cos",
                 cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, div_factor=25.0,
                 final_div_factor=1e4, three_phase=False, last_epoch=-1):
        self._cycle_momentum = cycle_momentum
        self._cycle = _binade.OneCycle(max_lr, total_steps, pct_start, anneal_strategy,
                                       base_momentum, max_momentum, div_factor, final_div_factor,
                                       three_phase)
        super().__init__(optimizer, last_epoch)

    def rate(self, base, step):
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


class ReduceLROnPlateau(ReduceOnPlateau):
    """ReduceOnPlateau under PyTorch's name."""
