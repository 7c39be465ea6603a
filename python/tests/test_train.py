import json
import math
import os
import signal
import subprocess
import sys

import binade as bn
import pytest

TINY = dict(layers=1, width=16, heads=2, context=16, batch=2, precision="bf16", log_every=1,
            eval_every=2, eval_batches=1, checkpoint_every=0, sample=8, layer_stats=0, device="cpu")


def test_a_run_is_an_iterator_over_its_metrics(tmp_path):
    run = bn.train(steps=4, out=tmp_path / "run", **TINY)
    records = list(run)
    assert [r["step"] for r in records] == [0, 1, 2, 3, 4]
    assert records[0]["validation_loss"] > 0 and "validation_loss" in records[2]
    assert all(r["loss"] > 0 and r["tokens_per_second"] > 0 for r in records[1:])
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == records
    result = run.result
    assert result.steps == 4 and not result.interrupted
    assert result.folder == str(tmp_path / "run")
    text = bn.generate(result.folder, "the", tokens=5)
    assert isinstance(text, str) and text
    assert bn.generate(result.folder, "the", tokens=5) == text


def test_a_recipe_is_a_setting(tmp_path):
    options = {**TINY, "precision": None}
    recipe = bn.amp.Recipe("delayed, history = 3, head = true")
    for given in (recipe, "delayed, history = 3, head = true"):
        config = bn.training.configuration(steps=2, recipe=given, **options)
        assert "recipe = \"delayed, history = 3, head = true\"" in str(config)
    run = bn.train(steps=2, out=tmp_path / "run", recipe=recipe, **options)
    assert [r["step"] for r in run] == [0, 1, 2]
    assert 'precision = "fp8"' in (tmp_path / "run" / "config.toml").read_text()


def test_metrics_are_live(tmp_path):
    run = bn.train(steps=1000, out=tmp_path / "run", **TINY)
    steps = []
    for record in run:
        steps.append(record["step"])
        if record["step"] == 2:
            run.stop()
    assert steps[-1] < 5 and run.result.interrupted


def test_one_run_at_a_time(tmp_path):
    first = bn.train(steps=1000, out=tmp_path / "first", **TINY)
    next(first)
    with pytest.raises(bn.Error, match="one run at a time"):
        bn.train(steps=1, out=tmp_path / "second", **TINY)
    first.stop()
    assert len(list(bn.train(steps=1, out=tmp_path / "second", **TINY))) == 2
    assert first.result.interrupted


def test_a_run_that_is_dropped_ends(tmp_path):
    run = bn.train(steps=1000, out=tmp_path / "run", **TINY)
    next(run)
    del run
    assert (tmp_path / "run" / "checkpoints").exists()


def test_two_runs_give_the_same_losses(tmp_path):
    losses = [[r["loss"] for r in bn.train(steps=2, out=tmp_path / str(i), **TINY)][1:]
              for i in range(2)]
    assert losses[0] == losses[1]


def test_errors_of_the_trainer_are_raised(tmp_path):
    with pytest.raises(bn.Error, match="steps"):
        bn.train(steps="many")
    with pytest.raises(bn.Error, match="stepz"):
        bn.train(stepz=4)
    with pytest.raises(bn.Error):
        list(bn.train(steps=1, data=str(tmp_path / "none.txt"), out=tmp_path / "run"))


def test_configuration():
    config = bn.training.configuration(steps=7, precision="fp16", activations=2)
    assert "steps = 7" in str(config) and 'activations = "keep = 2"' in str(config)


def test_options_override_the_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("[run]\nkeep_best = true\n[train]\nsteps = 3\n")
    assert "keep_best = true" in str(bn.training.configuration(file, steps=5))
    assert "keep_best = true" not in str(bn.training.configuration(file, keep_best=False))


def test_fine_tuning_with_adapters(tmp_path):
    base = list(bn.train(steps=2, out=tmp_path / "base", **TINY))
    sizes = ("layers", "width", "heads", "context")
    options = {name: value for name, value in TINY.items() if name not in sizes}
    run = bn.train(steps=2, out=tmp_path / "tuned", init_from=tmp_path / "base",
                   lora_rank=2, lora_targets=["q_proj", "v_proj"], **options)
    records = list(run)
    assert "v_proj" in str(run.config) and len(records) == 3
    assert abs(records[0]["validation_loss"] - base[-1]["validation_loss"]) < 0.1
    assert isinstance(bn.generate(run.result.folder, "the", tokens=3), str)


def test_plan():
    rows = bn.plan(layers=1, width=16, heads=2, context=16, batch=1, memory=10**9, device="cpu")
    assert {r["precision"] for r in rows} >= {"fp32", "bf16"}
    for row in rows:  # a checkpoint's snapshot stands beside parameters and moments
        state = row["bytes"]["parameters"] + row["bytes"]["optimizer"]
        assert state + row["snapshot"] < row["peak"] < 10**6
    assert rows[0]["parameters"] > 0


def test_generating_ids():
    model = bn.nn.GPT(1, 16, 2, 50, 8)
    ids = bn.generate(model, [1, 2, 3], tokens=4, temperature=0)
    assert len(ids) == 4 and all(0 <= i < 50 for i in ids)
    with pytest.raises(bn.Error, match="temperature"):
        bn.generate(model, [1], temperature=-1)


def test_tokenizer():
    tokenizer = bn.training.tokenizer()
    assert tokenizer.vocab == 256 and tokenizer.decode(tokenizer.encode("abc")) == "abc"


def test_ctrl_c_ends_a_run_with_a_checkpoint(tmp_path):
    program = f"""
import binade as bn
try:
    for record in bn.train(steps=100000, out={str(tmp_path / "run")!r}, **{TINY!r}):
        print("step", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    for _ in range(2):
        assert child.stdout.readline() == "step\n"
    child.send_signal(signal.SIGINT)
    rest = child.stdout.read().split()
    assert child.wait() == 0 and rest[-1] == "interrupted"
    assert any((tmp_path / "run" / "checkpoints").iterdir())


def test_a_run_is_evaluated_and_exported(tmp_path):
    run = bn.train(steps=2, out=tmp_path / "run", **TINY)
    last = list(run)[-1]
    result = bn.eval(tmp_path / "run")
    assert result["loss"] == pytest.approx(last["validation_loss"], rel=0.1)
    assert result["perplexity"] == pytest.approx(math.exp(result["loss"]))
    assert result["bits_per_byte"] == pytest.approx(result["loss"] / math.log(2), rel=1e-3)
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat. " * 20)
    own = bn.eval(tmp_path / "run", data=text, batch=3)
    assert own["tokens"] == 479 and own["loss"] != result["loss"]
    with bn.autocast("cpu", dtype=bn.bf16):
        lower = bn.eval(tmp_path / "run", data=text)["loss"]
    assert lower != own["loss"] and lower == pytest.approx(own["loss"], rel=1e-2)

    parameters = bn.export(tmp_path / "run", tmp_path / "hf", dtype=bn.bf16)
    model = bn.nn.Llama.from_pretrained(tmp_path / "hf")
    assert parameters == sum(p.numel() for p in model.parameters())
    with pytest.raises(bn.Error, match="export"):
        bn.export(tmp_path / "none", tmp_path / "other")


def test_models_generate():
    model = bn.nn.GPT(1, 16, 2, 256, 8)
    ids = model.generate([1, 2, 3], tokens=4, temperature=0)
    assert ids == model.generate(bn.tensor([[1, 2, 3]]), tokens=4, temperature=0)
    assert ids == bn.generate(model, [1, 2, 3], tokens=4, temperature=0)
    tokenizer = bn.Tokenizer("bytes")
    text = model.generate("\x01\x02\x03", tokens=4, temperature=0, tokenizer=tokenizer)
    assert text.encode(errors="replace") == bytes(ids).decode(errors="replace").encode(errors="replace")
    with pytest.raises(bn.Error, match="Tokenizer"):
        model.generate("text")


def test_tokenizers_of_files(tmp_path):
    tokenizer = bn.Tokenizer("bytes")
    ids = tokenizer.encode("héllo")
    assert len(ids) == 6 and len(tokenizer) == 256
    assert tokenizer.decode(ids) == tokenizer.decode(bn.tensor(ids)) == "héllo"
    with pytest.raises(bn.Error, match="none.json"):
        bn.Tokenizer(tmp_path / "none.json")


@pytest.mark.parametrize("options, argument", [
    (dict(lr="abc"), "lr"), (dict(layers=2, width=10, heads=4), "heads"),
    (dict(lora_rank=-1), "lora_rank")])
def test_errors_name_options_as_python_does(options, argument):
    with pytest.raises(bn.Error) as raised:
        bn.training.configuration(**options)
    assert raised.value.argument == argument and "--" not in str(raised.value)


def test_errors_of_runs_name_options_as_python_does(tmp_path):
    out = str(tmp_path / "run")
    bn.train(**TINY, steps=2, out=out).result
    with pytest.raises(bn.Error, match="add resume to continue"):
        bn.train(**TINY, steps=2, out=out).result
    with pytest.raises(bn.Error) as raised:
        bn.train(**TINY, steps=2, init_from=str(tmp_path / "none"), out=str(tmp_path / "x")).result
    assert "--" not in str(raised.value)
    with pytest.raises(bn.Error) as raised:
        bn.train(**TINY, steps=2, lora_rank=2, out=str(tmp_path / "x"))
    assert raised.value.argument == "lora_rank"
    bn.export(out, str(tmp_path / "model"))
    with pytest.raises(bn.Error, match="add force"):
        bn.export(out, str(tmp_path / "model"))
    with pytest.raises(bn.Error, match="export: dtype: expected f32"):
        bn.export(out, str(tmp_path / "other"), dtype="i64")
    with pytest.raises(bn.Error, match="eval: stride"):
        bn.eval(out, stride=-1)
    with pytest.raises(bn.Error) as raised:
        bn.generate(out, "a", top_p=0.0)
    assert raised.value.argument == "top_p"
    with pytest.raises(bn.Error, match="token ids of one text"):
        bn.nn.GPT(1, 16, 2, 32, 8).generate([[1, 2], [3, 4]])
