"""Makes optim.safetensors: optimizer steps, gradient clipping and schedule values."""

import math

import torch

from golden_common import Inputs, save

SEED = 20240602
STEPS = 10
SHAPES = ((5, 3), (7,))


class Lion(torch.optim.Optimizer):
    """The algorithm of the paper, which torch.optim does not have."""

    def __init__(self, params, lr, betas, weight_decay, foreach=False):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - lr * group["weight_decay"])
                p.add_((beta1 * m + (1 - beta1) * p.grad).sign(), alpha=-lr)
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


OPTIMIZERS = {
    "sgd_plain": (torch.optim.SGD, {"lr": 0.1}),
    "sgd_weight_decay": (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.05}),
    "sgd_momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "sgd_dampening": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    "sgd_nesterov": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "sgd_all": (
        torch.optim.SGD,
        {"lr": 0.03, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1},
    ),
    "adam_plain": (torch.optim.Adam, {"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8}),
    "adam_weight_decay": (
        torch.optim.Adam,
        {"lr": 0.02, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.1},
    ),
    "adamw_plain": (
        torch.optim.AdamW,
        {"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01},
    ),
    "adamw_strong_decay": (
        torch.optim.AdamW,
        {"lr": 0.02, "betas": [0.9, 0.95], "eps": 1e-5, "weight_decay": 0.3},
    ),
    "adam_amsgrad": (
        torch.optim.Adam,
        {"lr": 0.01, "betas": [0.9, 0.8], "eps": 1e-8, "amsgrad": True},
    ),
    "adamw_amsgrad": (
        torch.optim.AdamW,
        {"lr": 0.01, "betas": [0.9, 0.8], "eps": 1e-8, "weight_decay": 0.1, "amsgrad": True},
    ),
    "rmsprop_plain": (torch.optim.RMSprop, {"lr": 0.01}),
    "rmsprop_momentum": (
        torch.optim.RMSprop,
        {"lr": 0.01, "alpha": 0.9, "momentum": 0.9, "weight_decay": 0.1},
    ),
    "rmsprop_centered": (torch.optim.RMSprop, {"lr": 0.01, "alpha": 0.8, "centered": True}),
    "rmsprop_all": (
        torch.optim.RMSprop,
        {"lr": 0.02, "alpha": 0.8, "eps": 1e-6, "momentum": 0.5, "centered": True},
    ),
    "adagrad_plain": (torch.optim.Adagrad, {"lr": 0.1}),
    "adagrad_all": (
        torch.optim.Adagrad,
        {
            "lr": 0.1,
            "lr_decay": 0.05,
            "weight_decay": 0.1,
            "initial_accumulator_value": 0.1,
            "eps": 1e-6,
        },
    ),
    "adafactor_plain": (torch.optim.Adafactor, {"lr": 0.1}),
    "adafactor_all": (
        torch.optim.Adafactor,
        {"lr": 0.3, "beta2_decay": -0.5, "eps": [1e-5, 1e-2], "d": 1.5, "weight_decay": 0.1},
    ),
    "lion_plain": (Lion, {"lr": 0.01, "betas": [0.9, 0.99], "weight_decay": 0.0}),
    "lion_weight_decay": (Lion, {"lr": 0.02, "betas": [0.7, 0.8], "weight_decay": 0.3}),
    "nadam_plain": (torch.optim.NAdam, {"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8}),
    "nadam_decay": (
        torch.optim.NAdam,
        {"lr": 0.02, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.1, "momentum_decay": 0.1},
    ),
    "nadamw": (
        torch.optim.NAdam,
        {
            "lr": 0.01,
            "betas": [0.9, 0.9],
            "eps": 1e-8,
            "weight_decay": 0.2,
            "decoupled_weight_decay": True,
        },
    ),
}

# One matrix each; steps in bf16 by torch.optim.Muon, in float64 by the loop below.
MUON = {
    "muon_plain": {"lr": 0.02},
    "muon_no_nesterov": {"lr": 0.02, "nesterov": False, "momentum": 0.8, "weight_decay": 0.3},
    "muon_match_rms": {"lr": 0.01, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3},
}
MUON_SHAPES = ((12, 5), (6, 9))


def optimizer_cases(inputs, tensors):
    """Ten steps on two parameters; gradients differ by nine orders of magnitude in size."""
    starts = [inputs.normal(*shape) for shape in SHAPES]
    gradients = [inputs.normal(STEPS, *shape) for shape in SHAPES]
    gradients[0] *= torch.tensor([1e-6, 1.0, 1e3])  # one magnitude per column
    for i in range(len(SHAPES)):
        tensors[f"start{i}"] = starts[i]
        tensors[f"grad{i}"] = gradients[i]
    cases = []
    for name, (kind, options) in OPTIMIZERS.items():
        for i, trace in enumerate(run(kind, options, starts, gradients)):
            tensors[f"{name}/param{i}"] = trace
        cases.append({"case": name, "optimizer": kind.__name__, "params": options})
    return cases


def run(kind, options, starts, gradients):
    """The values of each parameter after each step: [STEPS, *shape]."""
    parameters = [torch.nn.Parameter(start.clone()) for start in starts]
    if kind is not torch.optim.Muon:  # has no such option
        options = {**options, "foreach": False}
    optimizer = kind(parameters, **options)
    traces = [[] for _ in parameters]
    for step in range(STEPS):
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient[step].clone()
        optimizer.step()
        for trace, parameter in zip(traces, parameters):
            trace.append(parameter.detach().clone())
    return [torch.stack(trace) for trace in traces]


def muon_cases(inputs, tensors):
    """Ten steps of torch.optim.Muon, and of its formulas in float64."""
    starts = [inputs.normal(*shape) for shape in MUON_SHAPES]
    gradients = [inputs.normal(STEPS, *shape) for shape in MUON_SHAPES]
    for i in range(len(MUON_SHAPES)):
        tensors[f"muon/start{i}"] = starts[i]
        tensors[f"muon/grad{i}"] = gradients[i]
    cases = []
    for name, options in MUON.items():
        for i, trace in enumerate(run(torch.optim.Muon, options, starts, gradients)):
            tensors[f"{name}/param{i}"] = trace
        for i in range(len(MUON_SHAPES)):
            tensors[f"{name}/exact{i}"] = exact_muon(options, starts[i], gradients[i])
        cases.append({"case": name, "params": options})
    return cases


def exact_muon(options, start, gradients):
    weight, momentum = start.double(), torch.zeros_like(start).double()
    beta, lr = options.get("momentum", 0.95), options["lr"]
    rows, columns = start.shape
    ratio = math.sqrt(max(1, rows / columns))
    if "adjust_lr_fn" in options:
        ratio = 0.2 * math.sqrt(max(rows, columns))
    trace = []
    for gradient in gradients.double():
        momentum = beta * momentum + (1 - beta) * gradient
        x = (1 - beta) * gradient + beta * momentum if options.get("nesterov", True) else momentum
        x = x / x.norm()
        for _ in range(options.get("ns_steps", 5)):
            gram = x @ x.T
            x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
        weight = weight * (1 - lr * options.get("weight_decay", 0.1)) - lr * ratio * x
        trace.append(weight.float())
    return torch.stack(trace)


def clip_cases(inputs, tensors):
    """clip_grad_norm_ over three gradients at once, above and below the limit; clip_grad_value_."""
    gradients = [inputs.normal(*shape) for shape in SHAPES + ((2, 3, 5),)]
    for i, gradient in enumerate(gradients):
        tensors[f"clip/grad{i}"] = gradient
    cases = []
    for norm_type in ("1", "2", "inf"):
        for max_norm in (0.5, 1000.0):
            name = f"clip_norm_{norm_type}_{'above' if max_norm < 1 else 'below'}"
            parameters = with_gradients(gradients)
            total = torch.nn.utils.clip_grad_norm_(parameters, max_norm, float(norm_type))
            tensors[f"{name}/total"] = total
            cases.append({"case": name, "max_norm": max_norm, "norm_type": norm_type})
            store_gradients(tensors, name, parameters)
    parameters = with_gradients(gradients)
    torch.nn.utils.clip_grad_value_(parameters, 0.4, foreach=False)
    store_gradients(tensors, "clip_value", parameters)
    cases.append({"case": "clip_value", "clip_value": 0.4})
    return cases


def with_gradients(gradients):
    parameters = [torch.nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient.clone()
    return parameters


def store_gradients(tensors, name, parameters):
    for i, parameter in enumerate(parameters):
        tensors[f"{name}/grad{i}"] = parameter.grad


def linear_decay(step, lr, final, warmup, total):
    return lr + (final - lr) * progress(step, warmup, total)


def cosine_decay(step, lr, final, warmup, total):
    return final + (lr - final) * 0.5 * (1.0 + math.cos(math.pi * progress(step, warmup, total)))


def constant(step, lr, final, warmup, total):
    return lr


def progress(step, warmup, total):
    return min(1.0, (step - warmup) / (total - warmup))


def schedule_cases(tensors):
    """lr for steps 0 .. total + 4; step s < warmup gives lr * (s + 1) / warmup."""
    cases = []
    for shape in (constant, linear_decay, cosine_decay):
        for warmup in (0, 7):
            at = {"lr": 3e-4, "final": 3e-5, "warmup": warmup, "total": 40}
            name = f"schedule_{shape.__name__}_warmup{warmup}"
            values = [
                at["lr"] * (step + 1) / warmup if step < warmup else shape(step, **at)
                for step in range(at["total"] + 5)
            ]
            tensors[f"{name}/lr"] = torch.tensor(values, dtype=torch.float64)
            cases.append({"case": name, "schedule": shape.__name__, "params": at})
    return cases


def one_cycle_cases(tensors):
    """Rates and momenta of OneCycleLR for all of its steps."""
    cases = []
    for name, options in {
        "one_cycle": {"max_lr": 0.1, "total_steps": 50},
        "one_cycle_linear": {
            "max_lr": 0.1,
            "total_steps": 37,
            "pct_start": 0.4,
            "anneal_strategy": "linear",
            "div_factor": 10,
            "final_div_factor": 100,
        },
        "one_cycle_three": {
            "max_lr": 0.3,
            "total_steps": 40,
            "three_phase": True,
            "base_momentum": 0.8,
            "max_momentum": 0.9,
        },
    }.items():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, **options)
        rates, momenta = [], []
        for step in range(options["total_steps"]):
            rates.append(optimizer.param_groups[0]["lr"])
            momenta.append(optimizer.param_groups[0]["momentum"])
            optimizer.step()
            if step + 1 < options["total_steps"]:
                scheduler.step()
        tensors[f"{name}/lr"] = torch.tensor(rates, dtype=torch.float64)
        tensors[f"{name}/momentum"] = torch.tensor(momenta, dtype=torch.float64)
        cases.append({"case": name, "params": options})
    return cases


def plateau_cases(inputs, tensors):
    """The learning rates of ReduceLROnPlateau after each metric of a noisy fall."""
    steps = torch.arange(60, dtype=torch.float64)
    metric = torch.exp(-steps / 8) + 0.02 * inputs.normal(60).double()
    tensors["plateau/metric"] = metric
    cases = []
    for name, options in {
        "plateau": {"patience": 3},
        "plateau_max": {"mode": "max", "factor": 0.5, "patience": 1, "threshold": 0.01},
        "plateau_abs": {
            "factor": 0.3,
            "patience": 2,
            "threshold": 0.005,
            "threshold_mode": "abs",
            "cooldown": 4,
            "min_lr": 0.004,
        },
        "plateau_max_abs": {"mode": "max", "patience": 2, "threshold_mode": "abs", "eps": 1e-4},
    }.items():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        rates = []
        for value in metric.tolist():
            scheduler.step(value)
            rates.append(optimizer.param_groups[0]["lr"])
        tensors[f"{name}/lr"] = torch.tensor(rates, dtype=torch.float64)
        cases.append({"case": name, "params": options})
    return cases


def ema_cases(inputs, tensors):
    """Averages of AveragedModel with get_ema_multi_avg_fn."""
    values = inputs.normal(STEPS, 6)
    model = torch.nn.Linear(6, 1, bias=False)
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    traces = []
    for value in values:
        with torch.no_grad():
            model.weight.copy_(value[None])
        average.update_parameters(model)
        traces.append(average.module.weight.detach()[0].clone())
    tensors["ema/values"] = values
    tensors["ema/averages"] = torch.stack(traces)


def main():
    inputs, tensors = Inputs(SEED), {}
    metadata = {
        "optimizers": optimizer_cases(inputs, tensors),
        "clips": clip_cases(inputs, tensors),
        "schedules": schedule_cases(tensors),
        "muon": muon_cases(inputs, tensors),
        "one_cycles": one_cycle_cases(tensors),
        "plateaus": plateau_cases(inputs, tensors),
        "oracle": f"torch {torch.__version__}",
    }
    ema_cases(inputs, tensors)
    save("optim.safetensors", tensors, metadata)


if __name__ == "__main__":
    main()
