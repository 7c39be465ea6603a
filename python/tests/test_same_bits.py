"""A training loop in Python gives the bits of the same loop in C++ (gpt_loop.cpp)."""

import os
import subprocess
import time

import binade as bn
import pytest

TINY = dict(layers=2, width=32, heads=2, vocab=64, context=16)


def run_loop(batch, steps, **sizes):
    """Losses, the hash of the weights and tokens/s, as gpt_loop.cpp computes them."""
    model = bn.nn.GPT(**sizes)
    optimizer = bn.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    shape = (batch, sizes["context"])
    losses = []
    begin = time.perf_counter()
    for step in range(steps):
        if step == 1:
            begin = time.perf_counter()
        tokens = bn.randint(0, sizes["vocab"], shape, seed=2 * step)
        targets = bn.randint(0, sizes["vocab"], shape, seed=2 * step + 1)
        optimizer.zero_grad()
        with bn.autocast("cpu", dtype=bn.bfloat16):
            loss = model.loss(tokens, targets)
        loss.backward()
        bn.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    seconds = time.perf_counter() - begin
    return losses, model, (steps - 1) * batch * sizes["context"] / seconds


def hash_of(model):
    value = 14695981039346656037
    for parameter in model.parameters():
        for byte in parameter.detach().numpy().tobytes():
            value = (value ^ byte) * 1099511628211 % 2**64
    return f"{value:016x}"


def run_cpp(batch, steps, layers, width, heads, vocab, context):
    program = os.environ.get("BINADE_GPT_LOOP")
    if not program:
        pytest.skip("BINADE_GPT_LOOP does not name the C++ program")
    arguments = [layers, width, heads, vocab, context, batch, steps]
    lines = subprocess.run([program, *map(str, arguments)], check=True, capture_output=True,
                           text=True).stdout.split()
    return [float.fromhex(line) for line in lines[:-2]], lines[-2], float(lines[-1])


def test_losses_and_weights_equal_those_of_cpp():
    losses, model, _ = run_loop(2, 4, **TINY)
    expected, expected_hash, _ = run_cpp(2, 4, **TINY)
    assert losses == expected
    assert hash_of(model) == expected_hash


def test_a_second_run_gives_the_same_bits():
    first, model, _ = run_loop(2, 2, **TINY)
    second, again, _ = run_loop(2, 2, **TINY)
    assert first == second and hash_of(model) == hash_of(again)


if __name__ == "__main__":  # speed: python test_same_bits.py, with BINADE_GPT_LOOP set
    sizes = dict(layers=4, width=128, heads=4, vocab=256, context=256)
    for _ in range(3):
        cpp = run_cpp(8, 12, **sizes)[2]
        python = run_loop(8, 12, **sizes)[2]
        print(f"C++ {cpp:.0f} tokens/s, Python {python:.0f} tokens/s: {python / cpp:.3f}x")
