"""Training programs as PyTorch's users write them, run with Binade in PyTorch's place.

The numbers that PyTorch gave are in semantics/programs.jsonl; `python test_training_programs.py` writes
it anew, with PyTorch."""

import io
import json
import pathlib

import numpy as np
import pytest

RECORDED = pathlib.Path(__file__).parent / "semantics" / "programs.jsonl"


def filled(torch, parameters, seed, scale):
    """Initial values that do not depend on the library."""
    numbers = np.random.default_rng(seed)
    with torch.no_grad():
        for p in parameters:
            p.copy_(torch.tensor(numbers.standard_normal(tuple(p.shape)).astype(np.float32) * scale))


def classifier(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))
    filled(torch, model.parameters(), 1, 0.5)
    return model


def points(torch):
    numbers = np.random.default_rng(2)
    x = torch.tensor(numbers.standard_normal((30, 4)).astype(np.float32))
    return x, torch.tensor(numbers.integers(0, 3, 30))


def loss_of(torch, model, x, classes):
    return torch.nn.functional.cross_entropy(model(x), classes)


def rates_and_losses(torch, make_schedulers):
    model, (x, classes) = classifier(torch), points(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedulers, seen = make_schedulers(torch.optim.lr_scheduler, optimizer), []
    for _ in range(10):
        optimizer.zero_grad()
        loss = loss_of(torch, model, x, classes)
        loss.backward()
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
        seen += [loss.item(), optimizer.param_groups[0]["lr"], schedulers[0].get_last_lr()[0]]
    return seen


def descent_by_hand(torch):
    numbers = np.random.default_rng(0)
    x = torch.tensor(numbers.standard_normal((32, 3)).astype(np.float32))
    y = x @ torch.tensor([[1.0], [2.0], [-1.0]]) + 0.5
    weight, bias = torch.zeros(3, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    losses = []
    for _ in range(20):
        loss = ((x @ weight + bias - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            for p in (weight, bias):
                p -= 0.1 * p.grad
                p.grad.zero_()
        losses.append(loss.item())
    return losses + weight.flatten().tolist()


def accumulated_gradients(torch):
    model, (x, classes) = classifier(torch), points(torch)
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=0.01), []
    for _ in range(4):
        for part in range(3):
            rows = slice(part * 10, part * 10 + 10)
            loss = loss_of(torch, model, x[rows], classes[rows]) / 3
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return losses


def averages_swapped_in_by_data(torch):
    """The usual exponential moving average: evaluate with it, then put the weights back."""
    model, (x, classes) = classifier(torch), points(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    shadow, losses = {n: p.data.clone() for n, p in model.named_parameters()}, []
    for _ in range(5):
        optimizer.zero_grad()
        loss_of(torch, model, x, classes).backward()
        optimizer.step()
        backup = {}
        for name, p in model.named_parameters():
            shadow[name] = 0.9 * shadow[name] + 0.1 * p.data
            backup[name] = p.data
            p.data = shadow[name]
        losses.append(loss_of(torch, model, x, classes).item())
        for name, p in model.named_parameters():
            p.data = backup[name]
        losses.append(loss_of(torch, model, x, classes).item())
    return losses


def adversarial_inputs(torch):
    """autograd.grad() of the inputs leaves the gradients of the weights alone."""
    model, (x, classes) = classifier(torch), points(torch)
    x.requires_grad_(True)
    loss = loss_of(torch, model, x, classes)
    gradient, = torch.autograd.grad(loss, x)
    loss = loss_of(torch, model, (x + 0.1 * gradient.sign()).detach(), classes)
    loss.backward()
    return [loss.item(), x.grad is None] + [p.grad.norm().item() for p in model.parameters()]


def hooks_that_clip_each_micro_batch(torch):
    model, (x, classes) = classifier(torch), points(torch)
    for p in model.parameters():
        p.register_hook(lambda gradient: gradient.clamp(-0.02, 0.02))
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.5), []
    for _ in range(3):
        optimizer.zero_grad()
        for rows in (slice(0, 15), slice(15, 30)):
            loss = loss_of(torch, model, x[rows], classes[rows])
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
    return losses


def a_recurrent_network(torch):
    nn = torch.nn
    lstm, head = nn.LSTM(3, 6, batch_first=True), nn.Linear(6, 1)
    parameters = [*lstm.parameters(), *head.parameters()]
    filled(torch, parameters, 4, 0.4)
    x = torch.tensor(np.random.default_rng(5).standard_normal((5, 7, 3)).astype(np.float32))
    y = x.sum((1, 2)).unsqueeze(1)
    optimizer, losses = torch.optim.RMSprop(parameters, lr=0.01, momentum=0.9), []
    for _ in range(5):
        optimizer.zero_grad()
        out, (h, c) = lstm(x)
        loss = nn.functional.mse_loss(head(out[:, -1]), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses + [list(h.shape), list(c.shape)]


def groups_frozen_layers_and_rates_by_hand(torch):
    model, (x, classes) = classifier(torch), points(torch)
    for p in model[0].parameters():
        p.requires_grad = False
    optimizer = torch.optim.SGD([{"params": model[2].parameters(), "lr": 0.5},
                                 {"params": model[3].parameters()}], lr=0.1, momentum=0.9,
                                weight_decay=0.01)
    losses = []
    for _ in range(6):
        for group in optimizer.param_groups:
            group["lr"] *= 0.9
        optimizer.zero_grad()
        loss = loss_of(torch, model, x, classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses + [model[0].weight.grad is None] + [g["lr"] for g in optimizer.param_groups]


def policy_gradients(torch):
    model, (x, actions) = classifier(torch), points(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    rewards, losses = torch.linspace(-1, 1, 30), []
    for _ in range(5):
        logs = model(x).log_softmax(-1)
        loss = -(logs[torch.arange(30), actions] * rewards).mean() + 0.01 * (logs.exp() * logs).sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.05)
        optimizer.step()
        losses.append(loss.item())
    return losses


def gradients_that_become_zeros(torch):
    """With zeros for gradients step() still decays weights and follows the momentum."""
    model, (x, classes) = classifier(torch), points(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    losses = []
    for step in range(5):
        optimizer.zero_grad(set_to_none=False)
        loss = loss_of(torch, model, x, classes)
        if step % 2 == 0:
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def scaled_losses(torch):
    model, (x, classes) = classifier(torch), points(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler, seen = torch.amp.GradScaler("cpu", init_scale=1024, growth_interval=2), []
    for step in range(6):
        optimizer.zero_grad()
        loss = loss_of(torch, model, x, classes) * (float("inf") if step == 3 else 1)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        seen += [loss.item() if step != 3 else None, scaler.get_scale()]
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    return seen + [other.get_scale(), other.get_growth_interval()]


def a_run_continued_from_a_file(torch):
    def made():
        model = classifier(torch)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    def steps(model, optimizer, scheduler):
        x, classes = points(torch)
        for _ in range(4):
            optimizer.zero_grad()
            loss = loss_of(torch, model, x, classes)
            loss.backward()
            optimizer.step()
            scheduler.step()
        return [loss.item(), scheduler.get_last_lr()[0]]

    parts, file = made(), io.BytesIO()
    before = steps(*parts)
    torch.save([part.state_dict() for part in parts], file)
    straight = steps(*parts)
    file.seek(0)
    parts = made()
    for part, state in zip(parts, torch.load(file)):
        part.load_state_dict(state)
    return before + straight + steps(*parts)


def chained_schedulers(torch):
    return rates_and_losses(torch, lambda s, o: [s.ExponentialLR(o, 0.9), s.StepLR(o, 3, 0.5)])


def warmup_and_decay(torch):
    return rates_and_losses(torch, lambda s, o: [s.LinearLR(o, 0.1, total_iters=4),
                                                 s.CosineAnnealingLR(o, 8, eta_min=0.01)])


PROGRAMS = [descent_by_hand, accumulated_gradients, averages_swapped_in_by_data, adversarial_inputs,
            hooks_that_clip_each_micro_batch, a_recurrent_network,
            groups_frozen_layers_and_rates_by_hand, policy_gradients, gradients_that_become_zeros,
            scaled_losses, a_run_continued_from_a_file, chained_schedulers, warmup_and_decay]


def is_near(found, expected):
    if isinstance(expected, list):
        return isinstance(found, (list, tuple)) and len(found) == len(expected) \
            and all(map(is_near, found, expected))
    if isinstance(expected, float):
        return found == pytest.approx(expected, rel=2e-5, abs=2e-6)
    return found == expected


def recorded():
    lines = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    return {line["program"]: line["numbers"] for line in lines}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_computes_pytorchs_numbers(program):
    import binade
    expected = recorded()[program.__name__]
    found = program(binade)
    assert is_near(found, expected), f"expected {expected}, found {found}"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_recorded_numbers_are_pytorchs(program):
    torch = pytest.importorskip("torch")
    assert is_near(program(torch), recorded()[program.__name__])


if __name__ == "__main__":
    import torch
    RECORDED.write_text("".join(
        json.dumps({"program": program.__name__, "numbers": program(torch)}) + "\n"
        for program in PROGRAMS))
