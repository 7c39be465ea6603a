"""Makes torch_diff/: tiny models of transformers and recordings (binade.torch.record) of what they compute, as they
are and with one fault each.

Needs the Python package binade beside torch and transformers.
"""

import contextlib
import pathlib

import torch
import transformers
from transformers.models.llama import modeling_llama
from torch.nn import functional as F

from binade.torch import record
from golden_common import HERE, Inputs

FOLDER = HERE / "torch_diff"
VOCAB, BATCH, TOKENS = 20, 2, 5
COMMON = dict(vocab_size=VOCAB, bos_token_id=None, eos_token_id=None, pad_token_id=None)
LLAMA = transformers.LlamaConfig(
    **COMMON, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, max_position_embeddings=8)
GPT2 = transformers.GPT2Config(
    **COMMON, n_embd=8, n_layer=2, n_head=2, n_positions=8, n_inner=12, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def made(config, inputs, name):
    """A model with wide weights, saved as `name`."""
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            wide = parameter.ndim > 1
            parameter.copy_(inputs.normal(*parameter.shape, scale=0.3 if wide else 0.2) + (0 if wide else parameter))
    model.save_pretrained(FOLDER / name)
    (FOLDER / name / "generation_config.json").unlink()
    return model.train()


def run(model, rows, name, fault=contextlib.nullcontext(), backward=False):
    model.zero_grad()
    tokens, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
    with fault, record(model, FOLDER / f"{name}.safetensors", targets=targets, gradients=backward):
        logits = model(tokens, use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        if backward:
            loss.backward()
    print(name, loss.item(), (FOLDER / f"{name}.safetensors").stat().st_size)


@contextlib.contextmanager
def changed(owner, name, value):
    """Another attribute for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def other_theta(model):
    rotary = model.model.rotary_emb
    return changed(rotary, "inv_freq", 500000.0 ** -(torch.arange(0, 4, 2) / 4))


def interleaved(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    """Rotary positions of neighbouring channels instead of the two halves."""
    def rotate(x):
        return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)

    cos, sin = (x[..., :x.shape[-1] // 2].repeat_interleave(2, dim=-1).unsqueeze(unsqueeze_dim) for x in (cos, sin))
    return q * cos + rotate(q) * sin, k * cos + rotate(k) * sin


def seeing_the_next(module, query, key, value, attention_mask, scaling, **_):
    """Eager attention whose causal mask begins one token late."""
    key = modeling_llama.repeat_kv(key, module.num_key_value_groups)
    value = modeling_llama.repeat_kv(value, module.num_key_value_groups)
    size = query.shape[2]
    hidden = torch.triu(torch.full((size, size), float("-inf")), diagonal=2)
    weights = F.softmax(query @ key.transpose(2, 3) * scaling + hidden, dim=-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def without_key_gradient(module, query, key, value, attention_mask, scaling, **_):
    return modeling_llama_eager(module, query, key.detach(), value, attention_mask, scaling)


modeling_llama_eager = modeling_llama.eager_attention_forward


def with_offset(self, x):
    """Llama's RMSNorm with Gemma's weight, to which 1 is added."""
    wide = x.float()
    return (1 + self.weight) * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def method(owner, name, function):
    return changed(owner, name, function.__get__(owner))


def llama_faults(model):
    layers = model.model.layers
    return {
        "theta": other_theta(model),
        "interleaved": changed(modeling_llama, "apply_rotary_pos_emb", interleaved),
        "eps": changed(layers[1].post_attention_layernorm, "variance_epsilon", 1e-4),
        "offset": method(model.model.norm, "forward", with_offset),
        "scale": changed(layers[1].self_attn, "scaling", 0.25),
        "mask": changed(modeling_llama, "eager_attention_forward", seeing_the_next),
    }


def main():
    FOLDER.mkdir(exist_ok=True)
    inputs = Inputs(20261119)
    llama, gpt2 = made(LLAMA, inputs, "llama"), made(GPT2, inputs, "gpt2")
    rows = inputs.integers(BATCH, TOKENS + 1, high=VOCAB)
    run(llama, rows, "llama_healthy", backward=True)
    run(gpt2, rows, "gpt2_healthy", backward=True)
    for name, fault in llama_faults(llama).items():
        run(llama, rows[:1], f"llama_{name}", fault)
    run(llama, rows[:1], "llama_detached",
        changed(modeling_llama, "eager_attention_forward", without_key_gradient), backward=True)
    run(gpt2, rows[:1], "gpt2_gelu", changed(gpt2.transformer.h[0].mlp, "act", torch.nn.GELU()))


if __name__ == "__main__":
    main()
