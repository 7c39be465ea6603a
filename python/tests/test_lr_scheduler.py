"""Rates of torch.optim.lr_scheduler, recorded in semantics/schedulers.jsonl from PyTorch 2.7."""

import json
import pathlib

import binade as bn
import pytest
from binade.optim import lr_scheduler

CASES = [json.loads(line) for line in (
    pathlib.Path(__file__).parent / "semantics" / "schedulers.jsonl").read_text().splitlines()]


def make_optimizer():
    parameters = [bn.ones(1, requires_grad=True) for _ in range(2)]
    return bn.optim.SGD([{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.2}], lr=1.0,
                        momentum=0.9)


def make(expression, optimizer):
    return eval(expression, {**vars(lr_scheduler), "optimizer": optimizer})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["scheduler"].split("(")[0])
def test_rates_are_pytorchs(case):
    optimizer = make_optimizer()
    scheduler = make(case["scheduler"], optimizer)
    for expected in case["rates"]:
        assert [group["lr"] for group in optimizer.param_groups] == pytest.approx(expected, rel=1e-6)
        assert scheduler.get_last_lr() == pytest.approx(expected, rel=1e-6)
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["scheduler"].split("(")[0])
def test_state_continues(case):
    scheduler = make(case["scheduler"], make_optimizer())
    for _ in range(5):
        scheduler.step()
    optimizer = make_optimizer()
    other = make(case["scheduler"], optimizer)
    other.load_state_dict(scheduler.state_dict())
    assert other.get_last_lr() == pytest.approx(case["rates"][5], rel=1e-6)


def test_a_plateau_lowers_the_rate():
    optimizer = make_optimizer()
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    for loss in (1.0, 1.0):
        scheduler.step(loss)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.5, 0.1])


def test_wrong_arguments_are_refused():
    optimizer = make_optimizer()
    with pytest.raises(bn.Error, match="load_state_dict"):
        lr_scheduler.StepLR(optimizer, 2, last_epoch=3)
    with pytest.raises(bn.Error, match="milestones"):
        lr_scheduler.SequentialLR(optimizer, [lr_scheduler.StepLR(optimizer, 2)], [3])
