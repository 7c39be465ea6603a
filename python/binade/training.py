"""The trainer: runs as iterators over live metrics, generation, and memory plans."""

import contextlib
import difflib
import json
import os
import re
import threading
import weakref

import numpy

from . import _binade
from ._binade import Config, Error, RunResult, Tensor, Tokenizer  # noqa: F401


def _text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def _in_python(error, op):
    """An error with options as Python spells them: lora_rank, not --lora-rank or [lora] rank."""
    known = {name for name, _ in _binade._keys()} | _OTHER_OPTIONS

    def spelled(text):
        return re.sub(r"--([a-z][a-z0-9-]*)", lambda found: found[1].replace("-", "_")
                      if found[1] in known else found[0], text)

    argument = spelled(error.argument)
    section = re.fullmatch(r"\[([a-z.]+)\] ([a-z_]+)", argument)
    if section:
        whole = "-".join(section.groups()).replace("_", "-")
        argument = whole if whole in known else section[2]
    if argument in known:
        argument = argument.replace("-", "_")
    op = spelled(op)
    facts = {name: spelled(getattr(error, name)) for name in ("expected", "found", "hint")}
    _binade._fail(op, argument=argument, details=error.details, **facts)


# Options of functions here that are no keys of the configuration.
_OTHER_OPTIONS = {"adapter", "branch", "force", "micro", "step", "stride", "tensor", "top-k", "top-p"}


@contextlib.contextmanager
def _spelled_in_python():
    """Errors of what runs inside name options as Python does."""
    try:
        yield
    except Error as error:
        _in_python(error, error.op)


def configuration(file=None, **options) -> Config:
    """The configuration of `binade train` from a TOML file and options; keys as on the command
    line, with underscores."""
    given = [(name.replace("_", "-"), _text(value)) for name, value in options.items()
             if value is not None]
    known = dict(_binade._keys())
    for name, _ in given:
        if name not in known:
            near = [k.replace("-", "_") for k in difflib.get_close_matches(name, known)]
            _binade._fail("train", argument=name.replace("-", "_"), expected="a key of the configuration",
                          found="an unknown one", hint="near it: " + ", ".join(near) if near else "")
    try:
        return _binade._resolve("" if file is None else str(file), given)
    except Error as error:
        if file is None:
            _in_python(error, "train" if error.op == "config" else error.op)
        raise


class TrainingRun:
    """A run in progress: iterating over it trains, one step at a time.

    Each step is a dictionary: step, loss, lr, gradient_norm, scale, applied, skipped,
    tokens_per_second, memory, seconds, and validation_loss where it was measured. Ctrl-C ends the
    run after its step, with a checkpoint, and raises KeyboardInterrupt.
    """

    _lock = threading.Lock()
    _current = None  # a weak reference to the run in progress: signals belong to one at a time

    def __init__(self, config):
        self.config = config
        with TrainingRun._lock:
            self._await_other()
            with _spelled_in_python():
                self._run = _binade._TrainingRun(config)
            TrainingRun._current = weakref.ref(self)
        self._read = 0  # bytes of metrics.jsonl
        self._waiting = []
        self._ended = self._stopped = False

    @staticmethod
    def _await_other():
        other = TrainingRun._current and TrainingRun._current()
        if other is None or other._run.finished:
            return
        if not other._stopped:
            _binade._fail("train", argument="run", expected="one run at a time in a process",
                          found="another in progress: " + (other.folder or "it begins"),
                          hint="iterate it to its end, or call its stop()")
        other._run.wait()

    def __iter__(self):
        return self

    def __next__(self):
        if self._ended:
            raise StopIteration
        while not self._waiting:
            try:
                with _spelled_in_python():
                    more = self._run.next()
            except Exception:
                self._ended = True
                raise
            self._waiting = self._new_records()
            if not more and not self._waiting:
                self._ended = True
                if self._run.result.interrupted and not self._stopped:
                    raise KeyboardInterrupt
                raise StopIteration
        return self._waiting.pop(0)

    def _new_records(self):
        path = os.path.join(self.folder, "metrics.jsonl")
        if not self.folder or not os.path.exists(path):
            return []
        with open(path, "rb") as file:
            if self._read > os.path.getsize(path):  # written anew
                self._read = 0
            file.seek(self._read)
            text = file.read()
        text = text[:text.rfind(b"\n") + 1]
        self._read += len(text)
        # A resumed run's file begins with the steps before it.
        records = [json.loads(line) for line in text.splitlines()]
        first = self._run.first_step
        return [record for record in records if first == 0 or record["step"] > first]

    def stop(self):
        """Ends the run after its current step, with a checkpoint."""
        self._stopped = True
        self._run.stop()

    @property
    def folder(self):
        """Where the run writes its metrics, checkpoints and report."""
        return self._run.folder

    @property
    def result(self):
        """How it ended; trains to the end first."""
        for _ in self:
            pass
        return self._run.result


def train(config=None, **options) -> TrainingRun:
    """Trains as `binade train` does and returns an iterator over its steps.

        for step in bn.train(steps=200, precision="bf16", out="runs/first"):
            print(step["step"], step["loss"])

    `config` is a TOML file. bn.train(...).result trains to the end.
    """
    if not isinstance(config, Config):
        config = configuration(config, **options)
    return TrainingRun(config)


def generate_with(native, prompt, tokenizer, options):
    """generate() of a model of the engine: ids, or a text with its tokenizer."""
    with _spelled_in_python():
        return _generated(native, prompt, tokenizer, options)


def _generated(native, prompt, tokenizer, options):
    if tokenizer is not None:
        return _binade._generate(native, tokenizer, prompt, *options).decode(errors="replace")
    if isinstance(prompt, str):
        _binade._fail("generate", argument="prompt", expected="token ids, or a tokenizer",
                      found="a text", hint="pass tokenizer=binade.Tokenizer(path)")
    if isinstance(prompt, Tensor):
        prompt = prompt.reshape(-1) if prompt.ndim == 2 and prompt.shape[0] == 1 else prompt
        prompt = prompt.tolist()
    ids = list(prompt)
    if not all(isinstance(i, (int, numpy.integer)) for i in ids):
        _binade._fail("generate", argument="prompt", expected="the token ids of one text, whole numbers",
                      found=repr(ids[:4]))
    return _binade._generate_ids(native, [int(i) for i in ids], *options)


def generate(model, prompt="\n", tokens=200, temperature=0.8, top_k=40, top_p=1.0, seed=0):
    """Continues a text with a model: a folder (a model's, a checkpoint's, a run's) or a language
    model of binade.nn, whose prompt and result are lists of token ids."""
    options = (tokens, temperature, top_k, top_p, seed)
    if not isinstance(model, (str, os.PathLike)):
        return generate_with(model._native, prompt, None, options)
    folder = _binade._model_folder(str(model), "generate")
    native = _binade._load_pretrained(folder, "cpu", _binade.f32)
    return generate_with(native, prompt, _binade._tokenizer_of(folder, native.vocab), options)


def eval(model, data=None, batch=8, stride=0, device="cpu") -> dict:
    """Loss, perplexity and, where the text is known, bits per byte of a folder's model (a model's, a
    checkpoint's, a run's) as `binade eval` measures them: a dictionary.

    `data` is a text, a folder of texts, a token file or examples; by default the validation part of
    the run's own data. With a `stride`, tokens are predicted from sliding windows. Runs in f32, or
    in the precision of the autocast around it.
    """
    if stride < 0:
        _binade._fail("eval", argument="stride", expected="at least 0, which means no windows",
                      found=str(stride))
    with _spelled_in_python():
        return _binade._evaluate(_binade._model_folder(str(model), "eval"),
                                 "" if data is None else str(data), batch, stride, device)


def export(source, to, dtype=None, adapter=False, force=False) -> int:
    """Writes the model of a run or a checkpoint as a folder that transformers loads, and returns
    the number of parameters. `adapter`: the adapter of a LoRA run in PEFT's files instead of merging
    it; `force` replaces a model in `to`."""
    dtype = None if dtype is None else _binade.dtype(dtype)
    if dtype is not None and dtype not in (_binade.f32, _binade.bf16, _binade.f16):
        _binade._fail("export", argument="dtype", expected="f32, bf16 or f16", found=dtype.name)
    with _spelled_in_python():
        return _binade._export(_binade._model_folder(str(source), "export"), str(to), dtype, adapter,
                               force)


def tokenizer(name="bytes") -> Tokenizer:
    """The tokenizer of a file or folder; "bytes" for the bytes of a text."""
    return Tokenizer(name)


def plan(config=None, memory=None, **options):
    """Memory and speed of a run in each precision, before anything is allocated: a list of
    dictionaries. `memory` in bytes; the machine's by default."""
    if not isinstance(config, Config):
        config = configuration(config, **options)
    return _binade._plan(config, memory)
