#!/usr/bin/env python3
"""The model of `binade bench step` in PyTorch, measured the same way; prints the same JSON.

  torch_step.py [--device cpu|cuda] [--precision fp32,tf32,bf16,fp16,fp8] [--mode eager,compiled,graphs]
                [--params autocast|masters] [--attention default,cudnn,flex] [--steps N] [--warmup N]
                [--window N] [--documents N]
                [--model gpt2|llama] [--layers N --width N --heads N --hidden N --context N
                --vocab N --batch N]

GPT-2 and Llama as everyone writes them: scaled_dot_product_attention, one matmul for q, k and v and
one for SwiGLU's gate and up, tanh GELU and a tied head or rotary positions, fused AdamW, gradients
clipped to a norm of 1, fp16 with GradScaler, fp8 with one scale per tensor taken from the tensor itself.

--params says what 16 bits and FP8 mean, as in Binade:
  autocast  f32 parameters and residual stream, cast by torch.autocast
  masters   bf16 parameters and residual stream, f32 master weights under a fused AdamW

--attention flex is FlexAttention, compiled: --window N lets a token see the last N, --documents N packs documents of
N tokens on average before the last of a sequence is cut, others in every step, that do not see one another.
"""
import argparse
import contextlib
import gc
import json
import math
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def quantized(x, dtype):
    """x in FP8 with one scale for the whole tensor, and the inverse of that scale."""
    largest = torch.finfo(dtype).max
    scale = largest / x.abs().amax().float().clamp(min=1e-12)
    return (x.float() * scale).clamp(-largest, largest).to(dtype), scale.reciprocal()


class Fp8Product(torch.autograd.Function):
    """x w^T with e4m3 operands, gradients in e5m2; scales from the tensors themselves."""

    @staticmethod
    def forward(ctx, x, weight):
        x8, x_scale = quantized(x, torch.float8_e4m3fn)
        w8, w_scale = quantized(weight, torch.float8_e4m3fn)
        ctx.save_for_backward(x8, x_scale, w8, w_scale)
        ctx.weight_dtype = weight.dtype
        return torch._scaled_mm(x8, w8.t(), scale_a=x_scale, scale_b=w_scale, out_dtype=torch.bfloat16,
                                use_fast_accum=True)

    @staticmethod
    def backward(ctx, dy):
        x8, x_scale, w8, w_scale = ctx.saved_tensors
        dy8, dy_scale = quantized(dy, torch.float8_e5m2)
        dx = torch._scaled_mm(dy8, w8.t().contiguous().t(), scale_a=dy_scale, scale_b=w_scale,
                              out_dtype=torch.bfloat16)
        dw = torch._scaled_mm(dy8.t().contiguous(), x8.t().contiguous().t(), scale_a=dy_scale, scale_b=x_scale,
                              out_dtype=torch.bfloat16)
        return dx, dw.to(ctx.weight_dtype)


class Fp8Linear(nn.Linear):
    def forward(self, x):
        y = Fp8Product.apply(x.reshape(-1, x.shape[-1]).to(torch.bfloat16), self.weight)
        y = y.view(*x.shape[:-1], -1)
        return y if self.bias is None else y + self.bias.to(y.dtype)


def rotated(x, cosine, sine):
    first, second = x.chunk(2, -1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1).to(x.dtype)


class Block(nn.Module):
    def __init__(self, o, linear):
        super().__init__()
        self.heads, self.llama = o.heads, o.model == "llama"
        norm = nn.RMSNorm if self.llama else nn.LayerNorm
        self.norm1, self.norm2 = norm(o.width), norm(o.width)
        self.qkv = linear(o.width, 3 * o.width, bias=not self.llama)
        self.projection = linear(o.width, o.width, bias=not self.llama)
        self.up = linear(o.width, o.hidden * (2 if self.llama else 1), bias=not self.llama)  # Llama: gate and up
        self.down = linear(o.hidden, o.width, bias=not self.llama)

    def forward(self, x, cosine, sine, mask):
        batch, tokens, width = x.shape
        q, k, v = (
            part.view(batch, tokens, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        if self.llama:
            q, k = rotated(q, cosine, sine), rotated(k, cosine, sine)
        if mask is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = flex_attention(q, k, v, block_mask=mask)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, tokens, width))
        y = self.norm2(x)
        if self.llama:
            gate, up = self.up(y).chunk(2, -1)
            return x + self.down(F.silu(gate) * up)
        return x + self.down(F.gelu(self.up(y), approximate="tanh"))


class LanguageModel(nn.Module):
    def __init__(self, o, linear):
        super().__init__()
        self.embedding = nn.Embedding(o.vocab, o.width)
        llama = o.model == "llama"
        self.positions = None if llama else nn.Embedding(o.context, o.width)
        self.blocks = nn.ModuleList(Block(o, linear) for _ in range(o.layers))
        self.norm = nn.RMSNorm(o.width) if llama else nn.LayerNorm(o.width)
        self.head = nn.Linear(o.width, o.vocab, bias=False)
        if not llama:
            self.head.weight = self.embedding.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        size = o.width // o.heads
        angles = torch.outer(torch.arange(o.context).float(), 10000.0 ** -(torch.arange(0, size, 2).float() / size))
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, tokens, targets, mask=None, places=None):
        x = self.embedding(tokens)
        if self.positions is not None:
            x = x + (self.positions.weight[: tokens.shape[1]] if places is None else self.positions(places))
        for block in self.blocks:
            x = block(x, self.cosine, self.sine, mask)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


class MasterAdamW:
    """Fused AdamW over f32 copies of 16-bit parameters, which are written back after each step."""

    def __init__(self, groups, **options):
        self.parameters = [p for group in groups for p in group["params"]]
        self.copies = [p.detach().float().clone() for p in self.parameters]
        for copy in self.copies:
            copy.grad = torch.empty_like(copy)
        of = dict(zip(map(id, self.parameters), self.copies))
        self.optimizer = torch.optim.AdamW(
            [{**group, "params": [of[id(p)] for p in group["params"]]} for group in groups], **options)

    def zero_grad(self, set_to_none):
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self):
        torch._foreach_copy_([copy.grad for copy in self.copies], [p.grad for p in self.parameters])
        self.optimizer.step()
        torch._foreach_copy_(self.parameters, self.copies)


def packed_documents(o):
    """The number of each token's document and its place there, for documents of about o.documents tokens."""
    numbers = torch.empty(o.batch, o.context, dtype=torch.int64)
    places = torch.empty_like(numbers)
    for row in range(o.batch):
        at = number = 0
        while at < o.context:
            length = min(int(torch.empty(1).log_normal_(math.log(o.documents) - 0.32, 0.8)) + 1, o.context - at)
            numbers[row, at : at + length] = number
            places[row, at : at + length] = torch.arange(length)
            at, number = at + length, number + 1
    return numbers.to(o.device), places.to(o.device)


class Masks:
    """FlexAttention's masks of the steps; None for plain causal attention."""

    def __init__(self, o, attention):
        self.o, self.steps = o, 0
        self.batches = [packed_documents(o) for _ in range(8)] if o.documents else [(None, None)]
        self.make = torch.compile(create_block_mask)
        self.fixed = self.mask(None) if attention == "flex" and not o.documents else None

    def mask(self, numbers):
        o = self.o

        def sees(b, h, q, k):
            seen = q >= k
            if o.window:
                seen = seen & (q - k < o.window)
            return seen if numbers is None else seen & (numbers[b, q] == numbers[b, k])

        batch = None if numbers is None else o.batch
        return self.make(sees, batch, None, o.context, o.context, device=o.device)

    def next(self):
        numbers, places = self.batches[self.steps % len(self.batches)]
        self.steps += 1
        return (self.fixed, None) if numbers is None else (self.mask(numbers), places)


def measure(o, precision, mode, attention):
    clock = time.process_time if o.cpu_time else time.perf_counter
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch._dynamo.reset()
    gc.collect()  # what the measurement before this one left
    masters = o.params == "masters" and precision in ("bf16", "fp8")
    model = LanguageModel(o, Fp8Linear if precision == "fp8" else nn.Linear).to(o.device)
    if masters:
        model = model.to(torch.bfloat16)
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    scaler = torch.amp.GradScaler(o.device, enabled=precision == "fp16")
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    make = MasterAdamW if masters else torch.optim.AdamW
    optimizer = make(groups, lr=4e-3, betas=(0.9, 0.95), fused=True)
    # graphs: replays CUDA graphs, which pays where the steps are short.
    run = model if mode == "eager" else torch.compile(model, mode="reduce-overhead" if mode == "graphs" else None)
    tokens = torch.randint(o.vocab, (o.batch, o.context)).to(o.device)
    targets = torch.randint(o.vocab, (o.batch, o.context)).to(o.device)
    low = precision in ("bf16", "fp16", "fp8") and not masters
    masks = Masks(o, attention)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(o.device, dtype, enabled=low):
            loss = run(tokens, targets, *masks.next())
        if scaler.is_enabled():
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return loss.detach().clone()  # the next replay overwrites the output of a graph

    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]) if attention == "cudnn" else contextlib.nullcontext():
        return {"precision": precision, "mode": mode, "params": "masters" if masters else "autocast",
                "attention": attention, **timed(o, step, clock)}


def timed(o, step, clock):
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
        "tokens_per_second": per_step / statistics.median(seconds),
        "best_tokens_per_second": per_step / min(seconds),
        "step_ms": statistics.median(seconds) * 1e3,
        "best_step_ms": min(seconds) * 1e3,
        "first_step_since_model_s": first,
        "loss": loss.item(),
    }
    if o.device == "cuda":
        result["peak_bytes"] = torch.cuda.max_memory_allocated()
        result["peak_reserved_bytes"] = torch.cuda.max_memory_reserved()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--mode", default="eager,compiled")
    parser.add_argument("--params", default="autocast", choices=["autocast", "masters"])
    parser.add_argument("--attention", default="default", help="default, cudnn and flex, separated by commas")
    parser.add_argument("--model", default="gpt2", choices=["gpt2", "llama"])
    parser.add_argument("--cpu-time", action="store_true", help="count CPU time; for --threads 1 on a busy machine")
    for name, value in dict(steps=20, warmup=3, layers=4, width=256, heads=4, hidden=0, context=256, vocab=256,
                            batch=8, threads=0, window=0, documents=0).items():
        parser.add_argument("--" + name, type=int, default=value)
    o = parser.parse_args()
    o.hidden = o.hidden or 4 * o.width
    if (o.window or o.documents) and o.attention != "flex":
        parser.error("--window and --documents need --attention flex")
    if o.threads > 0:
        torch.set_num_threads(o.threads)
    results = [measure(o, precision, mode, attention) for precision in o.precision.split(",")
               for mode in o.mode.split(",") for attention in o.attention.split(",")]
    where = torch.cuda.get_device_name() if o.device == "cuda" else f"cpu, {torch.get_num_threads()} threads"
    print(json.dumps({"bench": "step", "torch": torch.__version__, "device": where, "model": o.model, "layers": o.layers,
                      "width": o.width, "vocab": o.vocab, "batch": o.batch, "context": o.context,
                      "results": results}, indent=2))


if __name__ == "__main__":
    main()
