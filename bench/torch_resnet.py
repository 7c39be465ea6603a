#!/usr/bin/env python3
"""The step of `binade bench resnet --device cuda --precision bf16` in PyTorch: images/s of the median step.

  torch_resnet.py [--batch N] [--steps N]

torchvision's ResNet-50, compiled, with channels-last parameters and images, bf16 autocast, fused SGD with momentum, and
cuDNN's own benchmarking.
"""
import argparse
import time

import torch
import torchvision


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()

    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4, fused=True)
    compiled = torch.compile(model)
    images = torch.randn(args.batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (args.batch,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(compiled(images), labels)
        loss.backward()
        optimizer.step()

    begin = time.perf_counter()
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    warmup = time.perf_counter() - begin

    torch.cuda.reset_peak_memory_stats()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(args.steps + 1)]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    times = sorted(a.elapsed_time(b) for a, b in zip(events, events[1:]))
    median = times[len(times) // 2]
    print(f"PyTorch {torch.__version__}, ResNet-50, batch {args.batch}: {args.batch / median * 1e3:.0f} images/s, "
          f"{median:.2f} ms a step, {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB, warmup {warmup:.0f} s")


if __name__ == "__main__":
    main()
