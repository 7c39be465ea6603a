"""Several Python threads at once, and exceptions and signals in the middle of work."""

import os
import signal
import subprocess
import sys
import threading

import binade as bn


def losses(seed, results):
    bn.manual_seed(seed)
    model = bn.nn.GPT(1, 16, 2, 50, 8, dropout=0.1, seed=seed)
    optimizer = bn.optim.AdamW(model.parameters(), lr=1e-2)
    found = []
    for step in range(4):
        tokens = bn.randint(0, 50, (2, 8), seed=step)
        optimizer.zero_grad()
        with bn.autocast("cpu", dtype=bn.bfloat16):
            loss = model.loss(tokens, tokens)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    results[seed] = found


def test_two_threads_train_as_one_does():
    alone, together = {}, {}
    for seed in (1, 2):
        losses(seed, alone)
    threads = [threading.Thread(target=losses, args=(seed, together)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone and alone[1] != alone[2]


def interrupted(program):
    """The output of a program that gets Ctrl-C after its first line."""
    # Shells let processes in the background ignore it.
    program = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)" + program
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    rest = child.stdout.read().split()
    assert child.wait() == 0
    return rest


def test_ctrl_c_between_kernels():
    assert interrupted("""
import binade as bn
x = bn.randn(256, 256, seed=0) / 16
try:
    print("ready", flush=True)
    while True:
        x = x @ x
except KeyboardInterrupt:
    print("interrupted", (bn.ones(2, 2) @ bn.ones(2, 2)).sum().item())
""") == ["interrupted", "8.0"]


def test_ctrl_c_in_a_backward_of_python():
    assert interrupted("""
import time, binade as bn
class Slow(bn.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1
    @staticmethod
    def backward(ctx, dy):
        print("ready", flush=True)
        while True:
            time.sleep(0.01)
x = bn.ones(1, requires_grad=True)
try:
    Slow.apply(x).sum().backward()
except KeyboardInterrupt:
    print("interrupted", x.grad)
""") == ["interrupted", "None"]
