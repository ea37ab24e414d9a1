"""Attention in bf16 against the same by way of single precision, as modak_runtime.pytorch.attention has it.

    OMP_NUM_THREADS=1 taskset -c 1 python benchmarks/attention.py [LENGTH ...]

Both passes over eight heads of 64, as many samples as make 2,048 words, in turns: milliseconds of the processor's
time, medians of five blocks, and how many times as fast the other way is, paired by block. GFLOP/s are of the backward
pass alone, whose work is 2.5 times that of the forward.
"""

import sys
import time
from statistics import median

import torch
from torch.nn import functional

WORDS, HEADS, WIDTH, BLOCKS, SECONDS = 2048, 8, 64, 5, 0.3
LENGTHS = (16, 32, 64, 128, 256, 512, 1024)


def seconds_of(act):
    """Of one call, by as many as take a while."""
    act()
    began, calls = time.process_time(), 0
    while time.process_time() - began < SECONDS:
        act()
        calls += 1
    return (time.process_time() - began) / calls


def in_bf16(query, key, value):
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def in_single(query, key, value):
    return in_bf16(query.float(), key.float(), value.float()).to(query.dtype)


def main():
    print("| words a sample | bf16, ms | single, ms | times as fast | backward, GFLOP/s, bf16 | float32 |")
    print("|---" * 6 + "|")
    for length in map(int, sys.argv[1:] or LENGTHS):
        shape = max(1, WORDS // length), length, HEADS, WIDTH
        parts = [torch.randn(shape).to(torch.bfloat16).transpose(1, 2).requires_grad_() for _ in range(3)]
        whole = [part.detach().float().requires_grad_() for part in parts]

        def both(way, given=parts):
            seen = way(*given)
            torch.autograd.grad(seen, given, torch.ones_like(seen))

        def backwards(given):
            seen = in_bf16(*given)
            ones = torch.ones_like(seen)
            return seconds_of(lambda: torch.autograd.grad(seen, given, ones, retain_graph=True))

        blocks = [[seconds_of(lambda way=way: both(way)) for way in (in_bf16, in_single)] for _ in range(BLOCKS)]
        faster = sorted(one / other for one, other in blocks)
        gflop = 2.5 * 4 * shape[0] * HEADS * length**2 * WIDTH / 1e9
        speeds = [gflop / median(backwards(given) for _ in range(BLOCKS)) for given in (parts, whole)]
        cells = [f"{1e3 * median(column):.2f}" for column in zip(*blocks)]
        cells += [f"{median(faster):.2f} ({faster[0]:.2f} to {faster[-1]:.2f})", *(f"{speed:.0f}" for speed in speeds)]
        print(f"| {length} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
