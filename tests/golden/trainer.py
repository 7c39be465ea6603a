"""Makes trainer_run.safetensors: the training loop of Binade's Trainer, written in PyTorch."""

import math

import torch
from torch.nn import functional as F

from golden_common import Inputs, compact, save

SEED = 20240611
LAYERS, WIDTH, HEADS, VOCAB = 2, 16, 2, 256
CONTEXT, BATCH, STEPS = 8, 2, 20
ADAMW = {"betas": [0.9, 0.95], "eps": 1e-8}
WEIGHT_DECAY = 0.1
DATA_SEED = 7  # of the batches' places
CONFIG = {
    "model_type": "gpt2",
    "vocab_size": VOCAB,
    "n_positions": CONTEXT,
    "n_embd": WIDTH,
    "n_layer": LAYERS,
    "n_head": HEADS,
    "n_inner": None,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True,
}
# What differs between the runs. `type` is autocast's; float64 runs have none.
RUNS = {
    "fp32": {"type": None, "accumulate": 3, "clip": 0.5, "schedule": "cosine"},
    "unclipped": {"type": None, "accumulate": 1, "clip": 0.0, "schedule": "linear"},
    "bf16": {"type": torch.bfloat16, "accumulate": 2, "clip": 0.5, "schedule": "cosine"},
    # The scale stays far from f16's end: PyTorch rounds gradients of weights to f16, Binade does
    # not, so that they overflow at different scales. An infinite weight makes steps be skipped.
    "fp16": {
        "type": torch.float16,
        "accumulate": 2,
        "clip": 0.5,
        "schedule": "cosine",
        "scale_init": 2.0**4,
        "scale_growth_interval": 2,
        "poisoned": [0, 5, 6, 13],
    },
}
LR, WARMUP, FINAL = 1e-2, 4, 0.1


def text():
    return "".join(f"the quick brown fox {i * i}\n" for i in range(60)).encode()


def philox(counter, key):
    """Philox 4x32-10 (Salmon et al., 2011)."""
    c, mask = list(counter), 0xFFFFFFFF
    k0, k1 = key & mask, key >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & mask, (a >> 32) ^ c[3] ^ k1, a & mask]
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c


def batch(tokens, step, micro):
    """Sequences from places that are a function of seed, step, micro-batch and row."""
    rows, stream = [], (1 << 62) | step
    for row in range(BATCH):
        index = micro * BATCH + row
        words = philox([index, 0, stream & 0xFFFFFFFF, stream >> 32], DATA_SEED)
        place = ((words[0] << 32) | words[1]) % (len(tokens) - CONTEXT)
        rows.append(tokens[place : place + CONTEXT + 1])
    return torch.stack(rows)


def start_weights(inputs):
    """Wide weights, and biases and norm weights away from 0 and 1, so that each one shows."""
    shapes = {"transformer.wte.weight": (VOCAB, WIDTH), "transformer.wpe.weight": (CONTEXT, WIDTH)}
    for i in range(LAYERS):
        layer = f"transformer.h.{i}."
        for norm in ("ln_1", "ln_2"):
            shapes[f"{layer}{norm}.weight"] = shapes[f"{layer}{norm}.bias"] = (WIDTH,)
        for name, width_in, width_out in (
            ("attn.c_attn", WIDTH, 3 * WIDTH),
            ("attn.c_proj", WIDTH, WIDTH),
            ("mlp.c_fc", WIDTH, 4 * WIDTH),
            ("mlp.c_proj", 4 * WIDTH, WIDTH),
        ):
            shapes[f"{layer}{name}.weight"] = (width_in, width_out)
            shapes[f"{layer}{name}.bias"] = (width_out,)
    shapes["transformer.ln_f.weight"] = shapes["transformer.ln_f.bias"] = (WIDTH,)
    weights = {}
    for name, shape in sorted(shapes.items()):
        is_norm_weight = ".ln_" in name and name.endswith("weight")
        weights[name] = inputs.normal(*shape, scale=0.1, shift=float(is_norm_weight))
    return weights


def loss_of(w, rows):
    """GPT-2: pre-norm blocks, tanh GELU, a head tied to the embedding."""

    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), w[name + ".weight"], w[name + ".bias"], 1e-5)

    def linear(x, name):
        return F.linear(x, w[name + ".weight"].t(), w[name + ".bias"])

    def heads(x):
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    tokens, targets = rows[:, :-1], rows[:, 1:]
    x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"]
    for i in range(LAYERS):
        layer = f"transformer.h.{i}."
        q, k, v = linear(norm(x, layer + "ln_1"), layer + "attn.c_attn").chunk(3, dim=-1)
        y = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=True)
        x = x + linear(y.transpose(1, 2).flatten(-2), layer + "attn.c_proj")
        y = F.gelu(linear(norm(x, layer + "ln_2"), layer + "mlp.c_fc"), approximate="tanh")
        x = x + linear(y, layer + "mlp.c_proj")
    logits = F.linear(norm(x, "transformer.ln_f"), w["transformer.wte.weight"])
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def learning_rate(kind, applied):
    if applied < WARMUP:
        return LR * (applied + 1) / WARMUP
    progress = (applied - WARMUP) / (STEPS - WARMUP)
    if kind == "linear":
        return LR * (1 + (FINAL - 1) * progress)
    return LR * (FINAL + (1 - FINAL) * 0.5 * (1 + math.cos(math.pi * progress)))


def train(run, start, tokens):
    """Losses, gradient norms, rates, scales and whether each step was applied; final weights."""
    exact = run["type"] is None
    w = {n: (p.double() if exact else p.clone()).requires_grad_() for n, p in start.items()}
    matrices = [p for p in w.values() if p.ndim >= 2]
    others = [p for p in w.values() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0}],
        **ADAMW,
        foreach=False,
    )
    scaler = torch.amp.GradScaler(
        "cpu",
        enabled=run["type"] == torch.float16,
        init_scale=run.get("scale_init", 1.0),
        growth_interval=run.get("scale_growth_interval", 2000),
    )
    trace = {key: [] for key in ("loss", "gradient_norm", "lr", "scale", "applied")}
    taken = []
    optimizer.register_step_post_hook(lambda *_: taken.append(1))
    for step in range(STEPS):
        optimizer.zero_grad()
        rate = learning_rate(run["schedule"], len(taken))
        for group in optimizer.param_groups:
            group["lr"] = rate
        mean, kept = 0.0, w["transformer.wte.weight"][0, 5].item()
        if step in run.get("poisoned", []):
            w["transformer.wte.weight"].data[0, 5] = float("inf")
        for micro in range(run["accumulate"]):
            with torch.autocast("cpu", dtype=run["type"] or torch.bfloat16, enabled=not exact):
                loss = loss_of(w, batch(tokens, step, micro))
            mean += loss.item() / run["accumulate"]
            scaler.scale(loss / run["accumulate"]).backward()
        w["transformer.wte.weight"].data[0, 5] = kept
        scaler.unscale_(optimizer)
        limit = run["clip"] or float("inf")
        norm = torch.nn.utils.clip_grad_norm_(matrices + others, limit, foreach=False)
        before = len(taken)
        trace["scale"].append(scaler.get_scale())
        scaler.step(optimizer)
        scaler.update()
        trace["loss"].append(mean)
        trace["gradient_norm"].append(norm.item())
        trace["lr"].append(rate)
        trace["applied"].append(float(len(taken) > before))
    return trace, {name: p.detach().float() for name, p in w.items()}


def main():
    inputs, tensors = Inputs(SEED), {}
    start = start_weights(inputs)
    tensors.update(start)
    raw = torch.tensor(list(text()), dtype=torch.uint8)
    tensors["run/text"] = raw
    for name, run in RUNS.items():
        trace, final = train(run, start, raw.long())
        for key, values in trace.items():
            tensors[f"run/{name}/{key}"] = torch.tensor(values, dtype=torch.float64)
        for key, value in final.items():
            tensors[f"run/{name}/final/{key}"] = value
        print(name, ["%.4f" % x for x in trace["loss"][:3]], "->", "%.4f" % trace["loss"][-1])
        print("  norm", ["%.3f" % x for x in trace["gradient_norm"]])
        print("  applied", [int(x) for x in trace["applied"]])
    metadata = {
        "config": CONFIG,
        "steps": compact(STEPS),
        "lr": compact(LR),
        "warmup": compact(WARMUP),
        "weight_decay": compact(WEIGHT_DECAY),
        "data_seed": compact(DATA_SEED),

        "oracle": f"torch {torch.__version__}",
    }
    save("trainer_run.safetensors", tensors, metadata)


if __name__ == "__main__":
    main()
