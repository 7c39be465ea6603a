"""Makes scaler_traces.json: random sequences of calls on torch.amp.GradScaler and what they did."""

import math
import random

import torch

from golden_common import HERE, compact

SEED = 20240606
SEQUENCES = 50
MAX_BYTES = 400_000

# keyword: (exception class, fragment of PyTorch's message)
ERRORS = {
    "scale_not_called": ("AssertionError", "_scale is None"),
    "unscaled_twice": ("RuntimeError", "unscale_() has already been called"),
    "unscale_after_step": ("RuntimeError", "unscale_() is being called after step()"),
    "stepped_twice": ("RuntimeError", "step() has already been called"),
    "no_check_for_step": ("AssertionError", "No inf checks were recorded for this optimizer"),
    "no_check_for_update": ("AssertionError", "No inf checks were recorded prior to update"),
    "f16_gradients": ("ValueError", "Attempting to unscale FP16 gradients"),
}


def keyword(error):
    for key, (kind, fragment) in ERRORS.items():
        if type(error).__name__ == kind and fragment in str(error):
            return key
    raise error


def number(value):
    """A float as JSON: the exact value as a number, or "inf", "-inf", "nan"."""
    return value if math.isfinite(value) else str(value)


def optimizer(dtype):
    """SGD over two parameters of two elements, counting the steps it takes."""
    kind = {"f32": torch.float32, "f16": torch.float16}[dtype]
    parameters = [torch.nn.Parameter(torch.ones(2, dtype=kind)) for _ in range(2)]
    made = torch.optim.SGD(parameters, lr=0.5)
    made.steps = 0

    def count(*_):
        made.steps += 1

    made.register_step_post_hook(count)
    return made


def gradients(made):
    return [
        None if p.grad is None else [number(v) for v in p.grad.tolist()]
        for p in made.param_groups[0]["params"]
    ]


class Trace:
    """One scaler, its optimizers, and the record of each call made on them."""

    def __init__(self, options, dtypes):
        self.scaler = torch.amp.GradScaler(device="cpu", **options)
        self.optimizers = [optimizer(dtype) for dtype in dtypes]
        self.calls = []

    def make(self, call, **given):
        entry = {"call": call} | given
        try:
            entry |= getattr(self, f"_{call}")(**given)
        except (RuntimeError, AssertionError, ValueError) as error:
            entry["error"] = keyword(error)
        entry["scale"] = torch.tensor(self.scaler.get_scale()).item()  # float32 from the start
        entry["tracker"] = self.scaler._get_growth_tracker()
        self.calls.append(entry)

    def _plant(self, opt, grads):
        """Puts the given (already scaled) gradients where a backward would have left them."""
        for p, grad in zip(self.optimizers[opt].param_groups[0]["params"], grads):
            p.grad = None if grad is None else torch.tensor([float(v) for v in grad], dtype=p.dtype)
        return {}

    def _scale(self, loss):
        return {"out": number(self.scaler.scale(torch.tensor(loss)).item())}

    def _unscale(self, opt):
        self.scaler.unscale_(self.optimizers[opt])
        return {"grads": gradients(self.optimizers[opt])}

    def _step(self, opt):
        made = self.optimizers[opt]
        before = made.steps
        self.scaler.step(made)
        return {"stepped": made.steps > before, "grads": gradients(made)}

    def _update(self, new_scale=None):
        self.scaler.update(new_scale)
        return {}


class Player:
    """Draws calls at random: mostly proper iterations, with calls left out, doubled or astray."""

    def __init__(self, rng, trace):
        self.rng, self.trace = rng, trace

    def one_gradient(self, bad):
        if self.rng.random() < 0.06:
            return None
        values = [self.rng.randint(-1000, 1000) / 64 for _ in range(2)]
        if self.rng.random() < 0.05:
            values[0] = 2.0**120  # finite, whatever the unscaling makes of it
        if bad and self.rng.random() < 0.7:
            values[self.rng.randint(0, 1)] = self.rng.choice(["inf", "-inf", "nan"])
        return values

    def plant(self, opt):
        bad = self.rng.random() < 0.2
        grads = [self.one_gradient(bad) for _ in range(2)]
        if self.rng.random() < 0.04:
            grads = [None, None]
        self.trace.make("plant", opt=opt, grads=grads)

    def update(self):
        if self.rng.random() < 0.06:
            self.trace.make("update", new_scale=self.rng.choice([1.0, 3.5, 1024.0, 2.0**126]))
        else:
            self.trace.make("update")

    def maybe(self, call, **given):
        """The call, now and then left out or made twice."""
        for _ in range(self.rng.choices([0, 1, 2], weights=[4, 92, 4])[0]):
            self.trace.make(call, **given)

    def iteration(self):
        self.maybe("scale", loss=self.rng.choice([0.25, 1.5, 7.0]))
        opts = list(range(len(self.trace.optimizers)))
        for opt in opts:
            self.plant(opt)
        for opt in opts:
            if self.rng.random() < 0.35:
                self.maybe("unscale", opt=opt)
        self.rng.shuffle(opts)
        for opt in opts:
            self.maybe("step", opt=opt)
        self.update()

    def stray(self):
        opt = self.rng.randrange(len(self.trace.optimizers))
        call = self.rng.choice(["unscale", "step", "update", "plant"])
        if call == "plant":
            self.plant(opt)
        elif call == "update":
            self.update()
        else:
            self.trace.make(call, opt=opt)


def sequence(index):
    rng = random.Random(SEED + index)
    options = {
        "init_scale": rng.choice([65536.0, 65536.0, 1.0, 0.5, 3.7, 1e-3, 2.0**126]),
        "growth_factor": rng.choice([2.0, 2.0, 1.5, 3.0, 4.0]),
        "backoff_factor": rng.choice([0.5, 0.5, 0.25, 0.9, 0.1]),
        "growth_interval": rng.choice([1, 2, 3, 5, 2000]),
    }
    dtypes = ["f32"] * rng.choice([1, 1, 2, 3])
    if index % 12 == 5:
        dtypes.append("f16")
    trace = Trace(options, dtypes)
    player = Player(rng, trace)
    if index % 10 == 0:
        for _ in range(4):
            player.stray()  # before any scale()
    else:
        trace.make("scale", loss=1.0)
    for _ in range(rng.randint(6, 11)):
        player.iteration()
        if rng.random() < 0.25:
            player.stray()
    return options | {"optimizers": dtypes, "calls": trace.calls}


def main():
    traces = [sequence(index) for index in range(SEQUENCES)]
    used = [call.get("error") for trace in traces for call in trace["calls"]]
    for key in ERRORS:
        assert key in used, f"no sequence raises {key}"
        print(f"{key}: {used.count(key)}")
    out = {"oracle": f"torch {torch.__version__}", "errors": ERRORS, "sequences": traces}
    text = compact(out).replace('{"backoff_factor"', '\n{"backoff_factor"') + "\n"
    assert len(text) < MAX_BYTES, len(text)
    (HERE / "scaler_traces.json").write_text(text)
    print(f"scaler_traces.json: {len(used)} calls, {len(text)} bytes")


if __name__ == "__main__":
    main()
