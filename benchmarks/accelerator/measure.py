"""What prepare's choices are worth on an accelerator: steps of the same network under each, in turns, in one process.

python benchmarks/accelerator/measure.py RECORDS.jsonl [--rounds 5] [--steps 10] [--networks resnet50 decoder]
    [--variants NAME ...] [--small]

Without an accelerator it computes on the processor, where --small is wanted. Each variant has a model, an optimiser and
drawn samples of its own; a round is so many steps of each, and every other round goes the other way round. The records
get a line for each variant and network: seconds a step of each round, the peak of memory, joules a step where NVML
counts them. What stands in findings.md is what it prints.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median

BENCHMARKS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCHMARKS.parent / "modak_ansible" / "runtime" / "files")]
sys.path[:0] = [str(BENCHMARKS / name) for name in ("resnet50", "architectures")]

import networks  # noqa: E402
import pytorch as resnet50  # noqa: E402
import torch  # noqa: E402
from modak_runtime.energy import Nvml  # noqa: E402
from modak_runtime.pytorch import prepare  # noqa: E402
from modak_runtime.report import Report  # noqa: E402
from torch.nn import functional  # noqa: E402

# What a plan would choose, by name; ``fused`` is the optimiser's own option, which no plan chooses on an accelerator.
VARIANTS = {
    "stock": {},
    "fused": {},
    "channels_last": {"memory_format": "channels_last"},
    "tf32": {"precision": "tf32"},
    "bf16": {"precision": "bf16"},
    "bf16 channels_last": {"precision": "bf16", "memory_format": "channels_last"},
    "recomputed": {"memory": "recomputed"},
    "inductor": {"compiler": "inductor"},
    "bf16 inductor": {"precision": "bf16", "compiler": "inductor"},
}
BATCH = {"resnet50": 96, "decoder": 8}
CLASSES = 1000


class Variant:
    """A network under one choice."""

    def __init__(self, network: str, name: str, device: str, *, small: bool) -> None:
        self.name, self.seconds, self.joules, self.peak = name, [], [], 0
        flags = _flags()
        torch.manual_seed(1)
        batch = BATCH[network] // (8 if small else 1)
        if network == "resnet50":
            model, self.x = resnet50.Network(CLASSES), torch.rand(batch, 3, 224, 224)
            self.y = torch.randint(CLASSES, (batch,))
        else:
            size = networks.SIZES["decoder"]["small" if small else "base"]
            model = networks.Transformer(size, 256, 256, causal=True)
            self.x = torch.randint(256, (batch, size[3]))
            self.y = self.x.roll(-1, 1).flatten()
        model, self.x, self.y = model.to(device), self.x.to(device), self.y.to(device)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=name == "fused" or None)
        report = Report("", VARIANTS[name])
        self.model, self.optimizer = prepare(torch, report, (model, optimizer))
        self.step()
        self.applied = report.as_dict(finished=True)["choices"]
        self._flags = _flags()
        _set(flags)

    def step(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.model(self.x).flatten(0, -2), self.y)
        loss.backward()
        self.optimizer.step()
        return loss

    def round(self, steps: int, device: str) -> None:
        """Takes so many steps, after two that nobody times."""
        _set(self._flags)
        nvml = Nvml() if device == "cuda" else None
        for _ in range(2):
            self.step()
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        joules, began = sum(nvml.joules().values()) if nvml else 0.0, time.perf_counter()
        for _ in range(steps):
            loss = self.step()
        self.loss = float(loss.detach())  # waits until all is done
        self.seconds.append((time.perf_counter() - began) / steps)
        if nvml:
            self.joules.append((sum(nvml.joules().values()) - joules) / steps)
            self.peak = torch.cuda.max_memory_allocated() - before  # beside what the others keep


def _flags() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def _set(flags: tuple[bool, bool]) -> None:
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = flags


def measure(network: str, names: list[str], options: argparse.Namespace, device: str) -> list[dict[str, object]]:
    """The records of one network, all variants in turns."""
    made = []
    for name in names:
        began = time.perf_counter()
        made.append(Variant(network, name, device, small=options.small))
        print(f"{network} {name}: ready in {time.perf_counter() - began:.1f} s", flush=True)
    for number in range(options.rounds):
        for variant in made[:: -1 if number % 2 else 1]:
            variant.round(options.steps, device)
    machine = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    return [
        {
            "network": network, "variant": each.name, "machine": machine, "torch": str(torch.__version__),
            "batch": len(each.x), "steps": options.steps, "seconds": each.seconds, "joules": each.joules,
            "peak": each.peak, "loss": each.loss, "choices": each.applied,
        }
        for each in made
    ]  # fmt: skip


def show(records: list[dict[str, object]]) -> None:
    """A table: ms a step, how many times faster than stock in pairs of a round, joules, MiB."""
    stock = next(each["seconds"] for each in records if each["variant"] == "stock")
    print("| network | choice | ms a step | times stock's speed | J a step | MiB beside its state |")
    print("|---|---|---|---|---|---|")
    for each in records:
        ratios = sorted(one / other for one, other in zip(stock, each["seconds"], strict=True))
        joules = f"{median(each['joules']):.1f}" if each["joules"] else ""
        refused = "; ".join(
            f"{name}: {told['reason']}" for name, told in each["choices"].items() if not told["applied"]
        )
        faster = f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(f"| {each['network']} | {each['variant']} {refused} | {1e3 * median(each['seconds']):.1f} | "
              f"{faster} | {joules} | {each['peak'] / 2**20:,.0f} |", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--networks", nargs="+", default=list(BATCH), choices=list(BATCH))
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for network in options.networks:
        names = list(dict.fromkeys(["stock", *options.variants]))
        found = measure(network, names, options, device)
        with options.records.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(each) + "\n" for each in found)
        show(found)


if __name__ == "__main__":
    main()
