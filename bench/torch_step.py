#!/usr/bin/env python3
"""The model of `binade bench step` in PyTorch, measured the same way; prints the same JSON.

  torch_step.py [--device cpu|cuda] [--precision fp32,tf32,bf16] [--mode eager,compiled] [--steps N]
                [--warmup N] [--layers N --width N --heads N --context N --vocab N --batch N]

GPT-2 as everyone writes it: fused scaled_dot_product_attention, tanh GELU, tied head, fused AdamW,
gradients clipped to a norm of 1, bf16 as autocast over f32 parameters.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (
            part.view(batch, tokens, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.embedding = nn.Embedding(o.vocab, o.width)
        self.positions = nn.Embedding(o.context, o.width)
        self.blocks = nn.ModuleList(Block(o.width, o.heads) for _ in range(o.layers))
        self.norm = nn.LayerNorm(o.width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.embedding(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def measure(o, precision, mode):
    clock = time.process_time if o.cpu_time else time.perf_counter
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    model = GPT(o).to(o.device)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=4e-3, betas=(0.9, 0.95), fused=True)
    run = torch.compile(model) if mode == "compiled" else model
    tokens = torch.randint(o.vocab, (o.batch, o.context)).to(o.device)
    targets = torch.randint(o.vocab, (o.batch, o.context)).to(o.device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(o.device, torch.bfloat16, enabled=precision == "bf16"):
            loss = run(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    start = clock()
    step()
    synchronize(o.device)
    first = clock() - start
    for _ in range(o.warmup - 1):
        step()
    if o.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    # Waiting for a GPU costs time: its range comes in five parts.
    parts = min(5, o.steps) if o.device == "cuda" else o.steps
    seconds = []
    for part in range(parts):
        count = o.steps * (part + 1) // parts - o.steps * part // parts
        synchronize(o.device)
        start = clock()
        for _ in range(count):
            loss = step()
        synchronize(o.device)
        seconds.append((clock() - start) / count)
    per_step = o.batch * o.context
    result = {
        "precision": precision,
        "mode": mode,
        "tokens_per_second": per_step / statistics.median(seconds),
        "best_tokens_per_second": per_step / min(seconds),
        "step_ms": statistics.median(seconds) * 1e3,
        "best_step_ms": min(seconds) * 1e3,
        "first_step_since_model_s": first,
        "loss": loss.item(),
    }
    if o.device == "cuda":
        result["peak_bytes"] = torch.cuda.max_memory_allocated()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--mode", default="eager,compiled")
    parser.add_argument("--cpu-time", action="store_true", help="count CPU time; for --threads 1 on a busy machine")
    for name, value in dict(steps=20, warmup=3, layers=4, width=256, heads=4, context=256, vocab=256,
                            batch=8, threads=0).items():
        parser.add_argument("--" + name, type=int, default=value)
    o = parser.parse_args()
    if o.threads > 0:
        torch.set_num_threads(o.threads)
    results = [measure(o, precision, mode) for precision in o.precision.split(",") for mode in o.mode.split(",")]
    where = torch.cuda.get_device_name() if o.device == "cuda" else f"cpu, {torch.get_num_threads()} threads"
    print(json.dumps({"bench": "step", "torch": torch.__version__, "device": where, "layers": o.layers,
                      "width": o.width, "vocab": o.vocab, "batch": o.batch, "context": o.context,
                      "results": results}, indent=2))


if __name__ == "__main__":
    main()
