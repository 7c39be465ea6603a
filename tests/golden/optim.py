"""Makes optim.safetensors: optimizer steps, gradient clipping and schedule values."""

import math

import torch

from golden_common import Inputs, save

SEED = 20240602
STEPS = 10
SHAPES = ((5, 3), (7,))

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
}


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
    optimizer = kind(parameters, **options, foreach=False)
    traces = [[] for _ in parameters]
    for step in range(STEPS):
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient[step].clone()
        optimizer.step()
        for trace, parameter in zip(traces, parameters):
            trace.append(parameter.detach().clone())
    return [torch.stack(trace) for trace in traces]


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


def main():
    inputs, tensors = Inputs(SEED), {}
    metadata = {
        "optimizers": optimizer_cases(inputs, tensors),
        "clips": clip_cases(inputs, tensors),
        "schedules": schedule_cases(tensors),
        "oracle": f"torch {torch.__version__}",
    }
    save("optim.safetensors", tensors, metadata)


if __name__ == "__main__":
    main()
