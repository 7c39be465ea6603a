"""Recordings of torch models, as `binade diff` reads them."""

import json
import struct

import binade as bn
import pytest

torch = pytest.importorskip("torch")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        return x + self.drop(self.down(gated(self.up(x))))


def gated(x):
    return x * torch.sigmoid(x)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 8)
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.head = torch.nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def facts_of(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        return {k: json.loads(v) for k, v in json.loads(file.read(size))["__metadata__"].items()
                if k in ("records", "weights", "random", "skipped")}


def recorded(tmp_path, model, rows, backward=True, **options):
    from binade.torch import record
    path = tmp_path / "r.safetensors"
    with record(model, path, targets=rows[:, 1:], **options):
        logits = model(rows[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten())
        if backward:
            loss.backward()
    return bn.load_safetensors(path), facts_of(path), logits, loss


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model().eval()


@pytest.fixture
def rows():
    return torch.randint(0, 11, (3, 6), generator=torch.Generator().manual_seed(1))


def value_of(tensors, facts, kind="value", **wanted):
    found = [i for i, one in enumerate(facts["records"])
             if all(one.get(k) == v for k, v in wanted.items())]
    assert len(found) == 1, (wanted, found)
    return next(x for name, x in tensors.items() if name.startswith(f"{kind}/{found[0]:05d}/"))


def equal(ours, theirs):
    return torch.equal(torch.from_dlpack(ours), theirs.detach())


def test_results_gradients_and_weights_are_recorded(tmp_path, model, rows):
    tensors, facts, logits, loss = recorded(tmp_path, model, rows)
    assert equal(tensors["tokens"], rows[:, :-1]) and equal(tensors["targets"], rows[:, 1:])
    assert equal(value_of(tensors, facts, op="linear", module="head"), logits)
    assert equal(value_of(tensors, facts, op="cross_entropy"), loss)
    # A function between modules, by its name and where it stands.
    x = model.embed(rows[:, :-1])
    hidden = gated(model.blocks[0].up(x))
    assert equal(value_of(tensors, facts, op="mul", module="blocks.0", function="gated"), hidden)
    assert [one["op"] for one in facts["records"]] == [
        "embedding", *["linear", "sigmoid", "mul", "linear", "add"] * 2, "linear", "cross_entropy"]
    probabilities = torch.softmax(logits.detach(), -1)
    gradient = (probabilities - torch.nn.functional.one_hot(rows[:, 1:], 11)) / rows[:, 1:].numel()
    ours = value_of(tensors, facts, "gradient", op="linear", module="head")
    assert torch.allclose(torch.from_dlpack(ours), gradient, atol=1e-7)
    for name, parameter in model.named_parameters():
        assert equal(tensors[f"parameter/{name}"], parameter.grad)
    assert set(facts["weights"]) == set(dict(model.named_parameters())) | {"head.weight"}  # tied
    assert facts["random"] == [] and facts["skipped"] == []


def test_the_order_of_computation_is_recorded(tmp_path, model, rows):
    _, facts, _, _ = recorded(tmp_path, model, rows, backward=False)
    first = [one.get("from", []) for one in facts["records"][:6]]
    assert first == [[], [0], [1], [1, 2], [3], [0, 4]]
    assert facts["records"][5]["outputs"] == ["blocks.0"]


def test_a_forward_alone_has_no_gradients(tmp_path, model, rows):
    tensors, _, _, _ = recorded(tmp_path, model, rows, backward=False)
    assert not any(name.startswith(("gradient/", "parameter/")) for name in tensors)


def test_a_wrapper_does_not_change_names(tmp_path, model, rows):
    class Wrapper(torch.nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, tokens):
            return self.module(tokens)

    model.submodule = torch.nn.Linear(1, 1)
    plain = recorded(tmp_path, model, rows, backward=False)[1]
    wrapped = recorded(tmp_path, Wrapper(model), rows, backward=False)[1]
    assert wrapped["weights"] == plain["weights"] and "submodule.weight" in plain["weights"]
    assert [one["module"] for one in wrapped["records"][:-1]] == [
        one["module"] for one in plain["records"][:-1]]


def test_bf16_and_no_grad(tmp_path, model, rows):
    with torch.no_grad():
        tensors, facts, logits, _ = recorded(tmp_path, model.to(torch.bfloat16), rows[:1], backward=False)
    ours = value_of(tensors, facts, op="linear", module="head")
    assert ours.dtype == bn.bf16 and equal(ours, logits)


def test_dropout_is_said_to_be_random(tmp_path, model, rows):
    _, facts, _, _ = recorded(tmp_path, model.train(), rows)
    assert facts["random"] == ["blocks.0.drop", "blocks.1.drop"]


def test_without_ops_results_of_modules_stay(tmp_path, model, rows):
    _, facts, _, _ = recorded(tmp_path, model, rows, ops=False)
    assert {one["op"] for one in facts["records"]} == {"input", "output", "cross_entropy"}
    assert ["blocks.1.up"] in [one.get("outputs") for one in facts["records"]]


def test_large_tensors_are_left_out_and_named(tmp_path, model, rows):
    tensors, facts, _, _ = recorded(tmp_path, model, rows, largest=200)
    assert [name.split("/", 1)[1] for name in facts["skipped"]] == [
        f"blocks.{i}{part}" for i in (0, 1) for part in (".up/linear", "/sigmoid", "/mul")]
    assert max(x.numel() for name, x in tensors.items() if name.startswith("value/")) <= 200


def test_recomputed_layers_are_recorded_once(tmp_path, model, rows):
    from torch.utils.checkpoint import checkpoint
    plain = recorded(tmp_path, model, rows)[1]
    model.zero_grad()
    forward = model.blocks[0].forward
    model.blocks[0].forward = lambda x: checkpoint(forward, x, use_reentrant=False)
    again = recorded(tmp_path, model, rows)[1]
    assert [one["op"] for one in again["records"]] == [one["op"] for one in plain["records"]]


def test_a_written_tensor_is_another_one(tmp_path, rows):
    class InPlace(torch.nn.Module):
        def forward(self, tokens):
            x = tokens.float()
            x[:, 0] = 5
            return x * 2

    from binade.torch import record
    path = tmp_path / "r.safetensors"
    model = InPlace()
    with record(model, path):
        result = model(rows)
    tensors, facts = bn.load_safetensors(path), facts_of(path)
    assert equal(value_of(tensors, facts, op="mul"), result)
    source = facts["records"][-1]["from"][0]
    kept = next(x for name, x in tensors.items() if name.startswith(f"value/{source:05d}/"))
    assert equal(kept, result / 2)


def test_what_cannot_be_recorded_is_refused(tmp_path, model, rows):
    from binade.torch import record
    with pytest.raises(bn.Error, match="a call on token ids"):
        with record(model, tmp_path / "none.safetensors"):
            pass
    model(rows).sum().backward()
    with pytest.raises(bn.Error, match="zero_grad"):
        with record(model, tmp_path / "none.safetensors"):
            pass
    assert not (tmp_path / "none.safetensors").exists()


def test_an_error_leaves_no_file_and_no_hooks(tmp_path, model, rows):
    from binade.torch import record
    with pytest.raises(IndexError):
        with record(model, tmp_path / "none.safetensors"):
            model(rows + 100)
    assert not (tmp_path / "none.safetensors").exists()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
