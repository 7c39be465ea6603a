"""Complete models of the engine."""

from .. import _binade
from .module import Module
from .text import native_text

_F32 = _binade.f32


class _LanguageModel(Module):
    """A decoder-only transformer over token ids [batch, tokens]."""

    def __init__(self, kind, *arguments):
        super().__init__()
        self._make_native(kind, *arguments)

    def __repr__(self):
        return native_text(type(self).__name__, f"vocab={self.vocab}, context={self.context}",
                           self._native)

    def forward(self, tokens):
        """Logits [batch, tokens, vocab]."""
        return self._native.logits(tokens)

    logits = forward

    def loss(self, tokens, targets, *, documents=()):
        """Mean cross entropy of predicting targets, without storing all logits at once.

        `documents`: offsets, in the flattened batch, of documents that do not see one another.
        """
        return self._native.loss(tokens, targets, list(documents))

    def add_adapters(self, rank=8, alpha=16.0, dropout=0.0, targets=("all-linear",)):
        """Adds low-rank adapters (LoRA) to linear layers, named as Hugging Face names them, and
        freezes all other parameters. Make the optimizer afterwards.

        >>> import binade as bn
        >>> model = bn.nn.GPT(layers=1, width=16, heads=2, vocab=32, context=8)
        >>> model.add_adapters(rank=2, targets=["c_attn"])
        >>> [name for name, p in model.named_parameters() if p.requires_grad]
        ['blocks.0.attention.qkv.lora.c_attn.a', 'blocks.0.attention.qkv.lora.c_attn.b']
        """
        self._native.add_adapters(rank, alpha, dropout, list(targets))

    def adapter_state_dict(self):
        """Copies of the adapters' tensors under the names of the package PEFT."""
        return self._native.adapter_tensors()

    def load_adapter_state_dict(self, state_dict):
        self._native.load_adapter_tensors(state_dict)

    @property
    def vocab(self):
        return self._native.vocab

    @property
    def context(self):
        return self._native.context

    def generate(self, prompt, tokens=200, temperature=0.8, top_k=40, top_p=1.0, seed=0, *,
                 tokenizer=None):
        """Continues token ids (a list or a tensor of one text) and returns the new ones as a list;
        with a Tokenizer, `prompt` and the result are texts.

        >>> import binade as bn
        >>> model = bn.nn.GPT(layers=1, width=16, heads=2, vocab=256, context=8)
        >>> len(model.generate([1, 2, 3], tokens=5))
        5
        >>> type(model.generate("a", tokens=5, tokenizer=bn.Tokenizer("bytes")))
        <class 'str'>
        """
        from ..training import generate_with
        return generate_with(self._native, prompt, tokenizer,
                             (tokens, temperature, top_k, top_p, seed))

    def save_pretrained(self, folder):
        """Writes config.json and model.safetensors as Hugging Face names them."""
        _binade._save_pretrained(self._native, folder)

    @classmethod
    def from_pretrained(cls, folder, device="cpu", dtype=_F32):
        """A GPT-2 or Llama from a folder: a model's, a checkpoint's or a run's."""
        model = cls.__new__(cls)
        Module.__init__(model)
        object.__setattr__(model, "_native", _binade._load_pretrained(
            _binade._model_folder(str(folder), "from_pretrained"), device, dtype))
        return model


class GPT(_LanguageModel):
    """GPT-2: LayerNorm, learned positions, GELU, tied head.

    activations: what blocks keep for the backward: "keep", "lean" (on a GPU, what costs little is
    computed again), "recompute", or a number of blocks that keep everything.

    >>> import binade as bn
    >>> model = bn.nn.GPT(layers=1, width=16, heads=2, vocab=32, context=8)
    >>> tokens = bn.zeros(2, 8, dtype=bn.int64)
    >>> model.loss(tokens, tokens).shape
    ()
    """

    def __init__(self, layers=12, width=768, heads=12, vocab=50257, context=1024, *, dropout=0.0,
                 residual=None, activations="lean", seed=0, device="cpu",
                 dtype=_F32):
        super().__init__("_GPT", layers, width, heads, vocab, context, dropout, residual,
                         str(activations), seed, device, dtype)


class Llama(_LanguageModel):
    """Llama: RMSNorm, rotary positions, SwiGLU, grouped key heads."""

    def __init__(self, layers=24, width=2048, heads=16, kv_heads=0, hidden=5632, vocab=32000,
                 context=2048, *, eps=1e-5, rope_theta=10000.0, tied_head=False, residual=None,
                 activations="lean", seed=0, device="cpu", dtype=_F32):
        super().__init__("_Llama", layers, width, heads, kv_heads, hidden, vocab, context, eps,
                         rope_theta, tied_head, residual, str(activations), seed, device, dtype)


class ResNet(Module):
    """A residual network: ResNet-18 by default. block="bottleneck", blocks=(3, 4, 6, 3) is ResNet-50."""

    def __init__(self, channels=3, widths=(64, 128, 256, 512), blocks=(2, 2, 2, 2), classes=1000, *,
                 block="basic", large_stem=True, seed=0, device="cpu", dtype=_F32):
        super().__init__()
        self._make_native("_ResNet", channels, list(widths), list(blocks), classes, large_stem, seed,
                          device, dtype, block)

    def __repr__(self):
        return native_text("ResNet", "", self._native)

    def forward(self, x):
        return self._native(x)
