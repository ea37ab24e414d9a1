"""One rank: takes the steps that it is told, and rank 0 says how long they took.

Its one argument is a list in JSON of what to do, in order: {"probe": samples}, or {"steps": samples, "setting": how
gradients are summed, "sleep": seconds of a pass}, or with "batch" in place of sleep, where a pass is really computed.
What the network sends is the same: the gradients of the MNIST-CNN over gloo, by PyTorch's DistributedDataParallel, or
with "choices", such as "gradient_compression=powersgd", by what modak_runtime.prepare makes of these choices of a plan.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from probing import probe
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

WARM = 3  # steps before those that count: the first ones order the buckets
FIRST = 2  # steps of local SGD in which ranks are still together
PASSES = {"accumulate_4": 4}
TIMEOUT = timedelta(seconds=120)
# Parameters' shapes of the MNIST-CNN, and each layer's share of the compute, about a third of it in the forward pass.
LAYERS = (
    (((32, 1, 3, 3), (32,)), 0.03),
    (((64, 32, 3, 3), (64,)), 0.90),
    (((128, 9216), (128,)), 0.065),
    (((10, 128), (10,)), 0.005),
)


class Slept(torch.autograd.Function):
    """A layer that sleeps for the time of its compute and has gradients of its size."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor, seconds: float, *parameters: torch.Tensor) -> torch.Tensor:
        context.seconds = seconds
        context.shapes = [parameter.shape for parameter in parameters]
        time.sleep(seconds / 3)
        return value.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        time.sleep(2 * context.seconds / 3)
        return gradient, None, *(torch.full(shape, 1e-3) for shape in context.shapes)


class Sleeper(nn.Module):
    """The MNIST-CNN's parameters with sleep in place of its compute."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.layers = nn.ModuleList(
            nn.ParameterList(nn.Parameter(torch.zeros(shape)) for shape in shapes) for shapes, _ in LAYERS
        )

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        for layer, (_, share) in zip(self.layers, LAYERS):
            value = Slept.apply(value, share * self.seconds, *layer)
        return value


def mnist_cnn() -> nn.Module:
    """Returns the network whose gradients these are."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def prepared(network: nn.Module, optimizer: torch.optim.Optimizer, choices: str) -> None:
    """Lets modak's runtime, which is beside every job, sum the gradients as a plan has chosen."""
    from modak_runtime.parallel import local_steps, processes  # noqa: PLC0415 - a job has it, another machine need not
    from modak_runtime.report import Report, parsed  # noqa: PLC0415

    local_steps.TOGETHER = FIRST
    ranks = processes.begin(torch, {**os.environ, "MODAK_STRATEGY": "ddp"})
    ranks.models, ranks.gradients, ranks.apart = [], [], []
    report = Report("", parsed(choices))
    report.ranks = {}  # nobody watches these ranks
    ranks.prepare(report, [network, optimizer])


def trained(task: dict[str, Any], group: Any = None) -> Callable[[], None]:
    """Returns one step of what is asked for, of all ranks or of those of a group."""
    if "batch" in task:
        network, value = mnist_cnn(), torch.rand(task["batch"], 1, 28, 28)
    else:
        network, value = Sleeper(task["sleep"]), torch.ones(1, requires_grad=True)
    setting = task["setting"]
    if setting not in ("none", "plan"):
        # PowerSGD sums twice for a bucket, the second time once the first has ended: with several buckets ranks may sum
        # in different orders, and gloo ends them ("Received data size doesn't match"), so that it has one
        size = {"bucket_cap_mb": 100} if setting in ("bucket_100", "powersgd_1") else {}
        network = DistributedDataParallel(network, process_group=group, **size)
        if setting == "fp16":
            network.register_comm_hook(group, default_hooks.fp16_compress_hook)
        elif setting == "powersgd_1":
            state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=1, start_powerSGD_iter=2)
            network.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-6)
    passes = PASSES.get(setting, 1)
    if setting == "plan":
        prepared(network, optimizer, task["choices"])

    def step() -> None:
        optimizer.zero_grad()
        for each in range(passes):
            with network.no_sync() if each < passes - 1 else contextlib.nullcontext():
                network(value).square().mean().backward()
        optimizer.step()

    return step


def steps(task: dict[str, Any], group: Any = None) -> list[float]:
    """Returns the seconds of each pass of some steps, or their mean over each period; all ranks begin together."""
    step, seconds, period = trained(task, group), [], task.get("period", 1)
    for _ in range(task.get("warm", WARM)):
        step()
    for _ in range(task["steps"]):
        dist.barrier(group)
        begun = time.perf_counter()
        for _ in range(period):
            step()
        seconds.append((time.perf_counter() - begun) / period / PASSES.get(task["setting"], 1))
    return seconds


def main() -> None:
    """Takes the environment that any launcher of PyTorch's gives: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", timeout=TIMEOUT)
    for task in json.loads(sys.argv[1]):
        found = probe(task["probe"]) if "probe" in task else steps(task)
        dist.barrier()
        if dist.get_rank() == 0:
            print(json.dumps(found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
