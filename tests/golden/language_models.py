"""Makes gpt2_run.safetensors and llama_run.safetensors: 20 training steps of two tiny models."""

import copy

import torch
import transformers
from torch.nn import functional as F

from golden_common import Inputs, compact, save

STEPS, BATCH, CONTEXT, VOCAB = 20, 4, 16, 64
ADAMW = {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
CLIP = 1.0

GPT2 = transformers.GPT2Config(
    vocab_size=VOCAB,
    n_positions=CONTEXT,
    n_embd=32,
    n_layer=2,
    n_head=4,
    activation_function="gelu_new",
    layer_norm_epsilon=1e-5,
    resid_pdrop=0.0,
    embd_pdrop=0.0,
    attn_pdrop=0.0,
    tie_word_embeddings=True,
    bos_token_id=0,
    eos_token_id=0,
    attn_implementation="eager",
)
LLAMA = transformers.LlamaConfig(
    vocab_size=VOCAB,
    max_position_embeddings=CONTEXT,
    hidden_size=32,
    intermediate_size=88,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    rms_norm_eps=1e-5,
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    tie_word_embeddings=False,
    attention_dropout=0.0,
    attn_implementation="eager",
)
CONFIG_KEYS = {
    "gpt2": "model_type vocab_size n_positions n_embd n_layer n_head n_inner activation_function "
    "layer_norm_epsilon tie_word_embeddings",
    "llama": "model_type vocab_size max_position_embeddings hidden_size intermediate_size "
    "num_hidden_layers num_attention_heads num_key_value_heads head_dim hidden_act rms_norm_eps "
    "rope_parameters tie_word_embeddings attention_bias mlp_bias",
}


def initialise(model, inputs):
    """Wide weights, and biases and norm weights away from 0 and 1, so that each one shows."""
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            is_norm_weight = parameter.ndim == 1 and name.endswith("weight")
            parameter.copy_(inputs.normal(*parameter.shape, scale=0.1, shift=float(is_norm_weight)))


def token_batches(inputs):
    """Text-like data: the next token is mostly a function of this one, so the loss can fall."""
    tokens = torch.zeros(STEPS, BATCH, CONTEXT + 1, dtype=torch.int64)
    tokens[..., 0] = inputs.integers(STEPS, BATCH, high=VOCAB)
    for t in range(CONTEXT):
        noise = inputs.integers(STEPS, BATCH, high=3)
        tokens[..., t + 1] = (5 * tokens[..., t] + 3 + noise) % VOCAB
    return tokens


class DoubleRotary(torch.nn.Module):
    """The rotary embedding's cosines and sines in float64; transformers makes float32 ones."""

    def __init__(self, config):
        super().__init__()
        half = config.head_dim // 2
        theta = config.rope_parameters["rope_theta"]
        self.frequency = theta ** (-torch.arange(half, dtype=torch.float64) / half)

    def forward(self, x, position_ids):
        angle = position_ids[..., None] * self.frequency
        angle = torch.cat([angle, angle], dim=-1)
        return angle.cos(), angle.sin()


def in_double(model):
    """The same model with every intermediate in float64, where transformers would use float32."""
    model = copy.deepcopy(model).double()
    model.set_attn_implementation("sdpa")
    if isinstance(model, transformers.LlamaForCausalLM):
        model.model.rotary_emb = DoubleRotary(model.config)
        for parent in list(model.modules()):
            for name, child in list(parent.named_children()):
                if type(child).__name__ == "LlamaRMSNorm":
                    norm = torch.nn.RMSNorm(child.weight.shape, eps=child.variance_epsilon)
                    norm.weight = child.weight
                    setattr(parent, name, norm)
    return model


def loss_and_logits(model, batch):
    logits = model(input_ids=batch[:, :-1], use_cache=False).logits
    return F.cross_entropy(logits.reshape(-1, VOCAB), batch[:, 1:].reshape(-1)), logits


def train(model, tokens, clip):
    """Trains in place; returns the loss and the gradient norm (before clipping) of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW, foreach=False)
    losses, norms = [], []
    for batch in tokens:
        optimizer.zero_grad()
        loss, _ = loss_and_logits(model, batch)
        loss.backward()
        limit = CLIP if clip else float("inf")
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit, foreach=False)
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())
    return torch.tensor(losses, dtype=torch.float64), torch.tensor(norms, dtype=torch.float64)


def record_step0(model, batch, tensors):
    loss, logits = loss_and_logits(model, batch)
    loss.backward()
    tensors["run/step0/logits"] = logits
    for name, parameter in model.named_parameters():
        tensors[f"run/step0/grad/{name}"] = parameter.grad.clone()
    model.zero_grad()


def record_run(run, start, tokens, names, tensors):
    model = copy.deepcopy(start)
    for suffix, trained in (("", model), ("_f64", in_double(start))):
        losses, norms = train(trained, tokens, clip=run == "clip")
        tensors[f"run/{run}/loss{suffix}"] = losses
        tensors[f"run/{run}/grad_norm{suffix}"] = norms
    final = dict(model.named_parameters())
    values = [final[name].detach().double() for name in names]
    tensors[f"run/{run}/final_sum"] = torch.stack([value.sum() for value in values])
    tensors[f"run/{run}/final_norm"] = torch.stack([value.norm() for value in values])


def make(file, config, model_class, seed):
    inputs, tensors = Inputs(seed), {}
    model = model_class(config).train()
    initialise(model, inputs)
    tokens = token_batches(inputs)
    tensors["run/tokens"] = tokens
    names = sorted(name for name, _ in model.named_parameters())
    for name, parameter in model.named_parameters():
        tensors[name] = parameter.detach().clone()
    record_step0(model, tokens[0], tensors)
    for run in ("plain", "clip"):
        record_run(run, model, tokens, names, tensors)
    known = config.to_dict()
    metadata = {
        "config": {key: known.get(key) for key in CONFIG_KEYS[config.model_type].split()},
        "optimizer": ADAMW,
        "clip_norm": compact(CLIP),
        "final_names": names,
        "oracle": f"torch {torch.__version__}, transformers {transformers.__version__}",
    }
    save(file, tensors, metadata)
    for run in ("plain", "clip"):
        loss, reference = tensors[f"run/{run}/loss"], tensors[f"run/{run}/loss_f64"]
        gap = ((loss - reference) / reference).abs().max().item()
        print(f"  {run}: loss {loss[0]:.4f} -> {loss[-1]:.4f}, float32 within {gap:.1e} of float64")


def main():
    make("gpt2_run.safetensors", GPT2, transformers.GPT2LMHeadModel, 20240603)
    make("llama_run.safetensors", LLAMA, transformers.LlamaForCausalLM, 20240604)


if __name__ == "__main__":
    main()
