import numpy as np
import pytest

import binade as bn


def test_a_step_without_faults():
    model = bn.nn.Linear(4, 4)
    assert bn.lab.diagnose(lambda: model(bn.ones(2, 4)).sum(), model) is None


def test_overflow_in_f16_is_a_matter_of_range():
    model = bn.nn.Sequential(bn.nn.Linear(4, 4), bn.nn.Linear(4, 4))
    model[1].weight.detach().fill_(60000.0)
    model[0].weight.detach().fill_(100.0)

    def loss():
        with bn.autocast("cpu", dtype=bn.float16):
            return model(bn.ones(2, 4)).sum()

    diagnosis = bn.lab.diagnose(loss, model)
    assert diagnosis.verdict == "range"
    assert diagnosis.finding["op"] == "linear" and diagnosis.finding["module"] == "1"
    assert diagnosis.advice and "1" in str(diagnosis)


def test_a_scale_that_is_too_large():
    w = bn.tensor([1.0], requires_grad=True)

    def loss():
        with bn.autocast("cpu", dtype=bn.float16):
            return bn.linear(bn.ones(1, 1), w.reshape(1, 1)).sum()

    diagnosis = bn.lab.diagnose(loss, [("w", w)], scale=2.0**20)
    assert diagnosis.verdict == "loss scale" and 0 < diagnosis.largest_scale < 2.0**20


def test_an_op_that_f32_does_not_help():
    w = bn.tensor([-1.0], requires_grad=True)
    diagnosis = bn.lab.diagnose(lambda: bn.log(w).sum(), [("w", w)])
    assert diagnosis.verdict == "op" and diagnosis.finding["op"] == "log"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 200)
    options = {"data": str(folder / "text.txt"), "layers": 1, "width": 16, "heads": 2, "context": 8,
               "batch": 2, "checkpoint_every": 3, "hash_every": 2, "eval_every": 100, "sample": 0}
    list(bn.train(steps=6, out=folder / "run", **options))
    return folder / "run"


def test_any_tensor_of_a_step(run):
    with bn.no_grad():  # the replay has gradients of its own
        view = bn.lab.at(run, 5, tensor=["logits", "gradient/embedding.weight", "weight/embedding.weight"])
    assert view.equal and view.compared > 0 and view.origin == 3 and view.applied
    assert view.tensors["logits"].shape == (2, 8, 256)
    gradient = view.tensors["gradient/embedding.weight"]
    summary = view.summaries["gradient/embedding.weight"]
    assert summary["max"] == pytest.approx(np.abs(gradient.numpy()).max(), rel=1e-6) or (
        -summary["min"] == pytest.approx(np.abs(gradient.numpy()).max(), rel=1e-6))
    assert "flushed" in summary and "logits" in str(view)
    before = bn.lab.at(run, 4, tensor="weight/embedding.weight").tensors["weight/embedding.weight"]
    after = view.tensors["weight/embedding.weight"]
    assert (before.numpy() != after.numpy()).any()
    assert set(view.hash) == {"weights", "moments", "scales", "data"}


def test_a_view_is_saved(run, tmp_path):
    view = bn.lab.at(run, 2, tensor="logits", shadow=False)
    view.save(tmp_path / "logits.safetensors")
    assert (tmp_path / "logits.safetensors").stat().st_size > 2 * 8 * 256 * 2


def test_a_step_that_the_run_has_not(run):
    with pytest.raises(bn.Error, match="step: expected 1 to 6.*found 7"):
        bn.lab.at(run, 7)
    with pytest.raises(bn.Error, match="none"):
        bn.lab.at(run / "none", 1)


def test_a_branch(run, tmp_path):
    command = bn.lab.branch(run, 4, tmp_path / "branch", lr=1e-4)
    assert "train --resume" in command and "allow-changes lr" in command
    assert (tmp_path / "branch" / "checkpoints" / "step-4").is_dir()
