"""One rank of a network that modak's own runtime makes parallel: takes its steps, and rank 0 says how long they took.

Its one argument is a list in JSON of lists of what to do, in order: {"probe": samples}, {"collectives": samples,
"bytes": that all of them have together}, or {"steps": samples, "strategy": a name of prepare's such as tensor_2, or
none for a step without others, "width" of the network, "tokens" of each sequence, "seconds": of the whole batch's
compute}. Each list has one strategy, and a process of its own. Compute is slept, block by block and for as many
sequences as a rank has; what the layers compute besides is real, and small. What is sent is what a training of several
ranks sends: the runtime wraps, gathers, splits and sends.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from probing import PAUSE, probe
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

ROWS, BLOCKS = 8, 8
WARM = 2  # steps before those that count: in the first ones ranks compare what they do
FORWARD = 1 / 3  # of a step's compute
TIMEOUT = timedelta(seconds=120)
SETTLES = 0.3  # seconds
NEEDED = (
    "modak_runtime.parallel.processes", "modak_runtime.report", "torch.distributed.fsdp", "torch.distributed.tensor",
    "torch.optim",
)  # fmt: skip


class Late:
    """By how much this process has slept too long, on a machine that others use: the next sleep is shorter for it."""

    seconds = 0.0


def sleep(seconds: float) -> None:
    """Sleeps, as long in all as asked for."""
    begun = time.perf_counter()
    time.sleep(max(0.0, seconds - Late.seconds))
    Late.seconds += time.perf_counter() - begun - seconds


class Slept(torch.autograd.Function):
    """Sleeps for so many seconds for each row, of which a third in the forward pass."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor, seconds: float) -> torch.Tensor:
        context.seconds = seconds * len(value)
        if not isinstance(value, FakeTensor):  # of a tensor that another rank computes
            sleep(FORWARD * context.seconds)
        return value.view_as(value)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        sleep((1 - FORWARD) * context.seconds)
        return gradient, None


class Block(nn.Module):
    """Two pairs of layers, which ranks split as they split attention and what follows it in a transformer."""

    def __init__(self, width: int, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds  # of a row's compute
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up1, self.down1 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.up2, self.down2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Of rows, tokens and width."""
        given = Slept.apply(self.norm1(value), self.seconds)  # where the norm is: a value alone is in the stage before
        value = value + self.down1(nn.functional.gelu(self.up1(given)))
        return value + self.down2(nn.functional.gelu(self.up2(self.norm2(value))))


class Network(nn.Module):
    """Blocks, and a last layer that is small."""

    def __init__(self, width: int, seconds: float) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, seconds / BLOCKS) for _ in range(BLOCKS))
        self.last = nn.Linear(width, 1)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Of rows, tokens and width; gives a number for each row."""
        for block in self.blocks:
            value = block(value)
        return self.last(value.mean(1))


def trained(task: dict[str, Any]) -> Callable[[], None]:
    """Returns one step of what is asked for."""
    strategy, rows, seconds = task["strategy"], ROWS, task["seconds"] / ROWS
    ranks = joined(strategy) if strategy != "none" else None
    if ranks is not None:
        rows //= ranks.samples.size
        if strategy.startswith("tensor"):
            seconds /= ranks.model.size  # the layers that ranks split have all of the compute
    network, value = Network(task["width"], seconds), torch.randn(rows, task["tokens"], task["width"])
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-6)
    if ranks is not None:
        prepared(ranks, network, optimizer)

    def step() -> None:
        optimizer.zero_grad()
        network(value).square().mean().backward()
        optimizer.step()

    return step


def joined(strategy: str) -> Any:
    """Returns what makes this process one of several to modak's runtime, which is beside every job."""
    from modak_runtime.parallel import processes  # noqa: PLC0415 - a job has it, another machine need not

    return processes.begin(torch, {**os.environ, "MODAK_STRATEGY": strategy})


def prepared(ranks: Any, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Lets the runtime make a model and its optimizer those of several ranks."""
    from modak_runtime.report import Report  # noqa: PLC0415 - as above

    report = Report("", {})
    report.ranks = {}  # nobody watches these ranks
    ranks.is_compared = False  # as another model is to be looked at
    ranks.prepare(report, [network, optimizer])


def steps(task: dict[str, Any]) -> list[list[float]]:
    """Returns the seconds of some steps, in which all ranks begin together, and of them this rank's as in clocks()."""
    step, seconds = trained(task), [[], [], []]
    for _ in range(WARM):
        step()
    for _ in range(task["steps"]):
        dist.barrier()
        begun = clocks()
        step()
        for found, one, other in zip(seconds, begun, clocks()):
            found.append(other - one)
    return seconds


def clocks() -> tuple[float, float, float]:
    """Returns seconds on a clock, on a processor, and of waiting for one that others use, as the kernel counts them."""
    waited = int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1])
    return time.perf_counter(), time.process_time(), waited / 1e9


def collectives(samples: int, size: int) -> list[list[float]]:
    """Returns the seconds in which all ranks have made each of COLLECTIVES, of so many bytes; they take turns."""
    whole, part = torch.zeros(size // 4), torch.zeros(size // 4 // dist.get_world_size())
    acts = (
        lambda: dist.all_reduce(whole),
        lambda: dist.all_gather_into_tensor(whole, part),
        lambda: dist.reduce_scatter_tensor(part, whole),
        lambda: dist.broadcast(whole, 0),
    )
    seconds: list[list[float]] = [[] for _ in acts]
    for _ in range(samples + 1):  # the first connects the ranks
        for act, found in zip(acts, seconds):
            dist.barrier()
            time.sleep(PAUSE)
            dist.barrier()
            begun = time.perf_counter()
            act()
            dist.barrier()
            found.append(time.perf_counter() - begun)
    return [found[1:] for found in seconds]


def main() -> None:
    """Takes the environment that any launcher of PyTorch's gives: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT."""
    torch.set_num_threads(1)
    for name in NEEDED:  # once for all processes: that takes longer than their steps
        importlib.import_module(name)
    for number, tasks in enumerate(json.loads(sys.argv[1])):
        if not (child := os.fork()):
            os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + number)
            run(tasks)
        if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            sys.exit(code)


def run(tasks: list[dict[str, Any]]) -> NoReturn:
    """Does what a list says, and ends this process."""
    torch.manual_seed(1)
    dist.init_process_group("gloo", timeout=TIMEOUT)
    for task in tasks:
        if "steps" in task:
            found = steps(task)
        else:
            found = probe(task["probe"]) if "probe" in task else collectives(task["collectives"], task["bytes"])
        dist.barrier()
        if dist.get_rank() == 0:
            print(json.dumps(found), flush=True)
    dist.destroy_process_group()
    if int(os.environ["RANK"]) == 0:
        time.sleep(SETTLES)  # the others' last words go through this one's store
    os._exit(0)


if __name__ == "__main__":
    main()
