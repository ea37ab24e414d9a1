"""Measures data-parallel steps of 1, 2, 4, 8 ranks over shaped links: PyTorch's own DDP over gloo, a namespace a rank.

It needs root, for namespaces, and runs natively (in a suite: container native). Ranks share this machine's cores, so
the compute of most steps is emulated by sleeping, which each measure says; what is sent is real, and so is the time of
it. With --real one and two ranks compute really, on a core each. Between two ranks the network is probed by all-reduces
of gloo's own: latency of a message, and bandwidth by the slope of the two largest sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import namespaces
from arguments import give_up, number
from measures import Measures, measuring_parser
from probing import add_probe

HERE = Path(__file__).resolve().parent
PORT = 29511
PATIENCE = 420  # seconds that a group of ranks may take for all that it is told
SETTINGS = ("none", "default", "bucket_100", "fp16", "accumulate_4", "powersgd_1")
# Of modak's own runtime: the choices of a plan, and the steps between two means of local SGD
PLANS = {
    "": 1, "bucket_size=1": 1, "gradient_compression=fp16": 1, "gradient_compression=powersgd": 1,
    "gradient_compression=powersgd_4": 1, "local_sgd=8": 8, "local_sgd=16": 16,
    "local_sgd=16 gradient_compression=bf16": 16,
}  # fmt: skip
# Of the same runtime: a network's strategies, by ranks, of two shapes.
STRATEGIES = {
    2: ("ddp", "fsdp", "tensor", "pipeline"),
    4: ("ddp", "fsdp", "tensor", "pipeline", "fsdp_2", "tensor_2", "pipeline_2"),
}
COLLECTIVES, SIZE = ("all_reduce", "all_gather", "reduce_scatter", "broadcast"), 2**20
SHAPES = {"128 wide, 32 tokens": (128, 32), "64 wide, 128 tokens": (64, 128)}
BURSTS = {"1gbit": "32kb", "100mbit": "16kb"}  # small, since messages of these are
WARM = {"gradient_compression=powersgd": 12, "gradient_compression=powersgd_4": 12}  # its first ten sums are whole


def taken(net: namespaces.Network, ranks: int, tasks: list, script: str = "steps.py") -> list[list]:
    """Has so many ranks do what is told, a node each, and returns what the first says of each task."""
    words = [sys.executable, str(HERE / script), json.dumps(tasks)]
    shared = {
        **os.environ, "WORLD_SIZE": str(ranks), "LOCAL_RANK": "0", "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": namespaces.address(0), "MASTER_PORT": str(PORT), "GLOO_SOCKET_IFNAME": namespaces.INTERFACE,
    }  # fmt: skip
    started = [
        subprocess.Popen(
            [*net.enter(rank), *words],
            env={**shared, "RANK": str(rank)},
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        output, _ = started[0].communicate(timeout=PATIENCE)
        codes = [each.wait(timeout=60) for each in started]
    except subprocess.TimeoutExpired:
        give_up(1, f"{ranks} ranks did not end in time")
    finally:
        for each in started:
            if each.poll() is None:
                each.kill()
                each.wait()
    if any(codes):
        give_up(1, f"ranks ended with {codes}; their lines above say why")
    return [json.loads(line) for line in output.splitlines() if line.startswith("[")]


def slept(arguments: argparse.Namespace, ranks: int, settings: tuple[str, ...]) -> list[tuple[dict, dict]]:
    """Returns the steps with emulated compute: what is told, and what is said of it."""
    both = []
    for scaling, milliseconds in (("weak", arguments.compute), ("strong", arguments.compute / ranks)):
        if scaling == "strong" and ranks == 1:
            continue  # it is the same
        for setting in settings if scaling == "weak" else ("none", "default", "fp16"):
            task = {"steps": arguments.samples, "setting": setting, "sleep": milliseconds / 1e3}
            both.append((task, {"setting": setting, "scaling": scaling, "compute": f"slept {milliseconds:g} ms"}))
    return both


def planned(arguments: argparse.Namespace) -> list[tuple[dict, dict]]:
    """Returns the steps of modak's own runtime with emulated compute."""
    both, milliseconds = [], arguments.compute
    alike = {"setting": "plan", "sleep": milliseconds / 1e3}
    for choices, period in PLANS.items():
        warm = 2 + period if period > 1 else WARM.get(choices, 3)
        task = {"steps": arguments.samples, "choices": choices, "period": period, "warm": warm, **alike}
        name = f"prepare {choices}".strip()
        both.append((task, {"setting": name, "scaling": "weak", "compute": f"slept {milliseconds:g} ms"}))
    return both


def real(arguments: argparse.Namespace, ranks: int) -> list[tuple[dict, dict]]:
    """Returns the steps that are computed."""
    both = []
    for scaling, batch in (("weak", arguments.batch), ("strong", arguments.batch // ranks)):
        for setting in ("none",) if ranks == 1 else ("none", "default", "fp16"):
            task = {"steps": arguments.samples, "setting": setting, "batch": batch}
            both.append((task, {"setting": setting, "scaling": scaling, "compute": f"{batch} images"}))
    return both[:1] if ranks == 1 else both


def measure(net: namespaces.Network, measures: Measures, arguments: argparse.Namespace) -> None:
    """Runs every number of ranks over every link."""
    for ranks in arguments.ranks:
        for link in arguments.links if ranks > 1 else ("none",):
            net.shape(link)
            if arguments.real:
                told = real(arguments, ranks)
            elif arguments.plans:
                told = [*slept(arguments, ranks, ("none", "default"))[:2], *planned(arguments)]
            else:
                told = slept(arguments, ranks, SETTINGS if ranks > 1 else ("none",))
            tasks = [task for task, _ in told]
            if ranks == 2:
                tasks.append({"probe": arguments.samples})
            found = taken(net, ranks, tasks)
            for (_, about), seconds in zip(told, found):
                measures.add("step", seconds, ranks=ranks, link=link, **about)
            if ranks == 2:
                add_probe(measures, found[-1], ranks=2, link=link)


def compare(net: namespaces.Network, measures: Measures, arguments: argparse.Namespace) -> None:
    """Runs every strategy in every number of ranks over every link."""
    seconds = arguments.compute / 1e3
    for link in arguments.links:
        net.shape(link, BURSTS.get(link, namespaces.BURST))
        for ranks in arguments.ranks:
            strategies = STRATEGIES.get(ranks, ("none",))
            tasks = [
                [
                    {"steps": arguments.samples, "strategy": each, "width": width, "tokens": tokens, "seconds": seconds}
                    for width, tokens in SHAPES.values()
                ]
                for each in strategies
            ]
            told = {"collectives": arguments.samples, "bytes": SIZE}
            probes = [[told, *([{"probe": arguments.samples}] if ranks == 2 else [])]] if ranks > 1 else []
            found = taken(net, ranks, tasks + probes, "strategies.py")
            about = {"ranks": ranks, "link": link}
            for (each, shape), said in zip(((each, shape) for each in strategies for shape in SHAPES), found):
                for name, samples in zip(("step", "processor", "waited"), said):
                    compute = f"slept {arguments.compute:g} ms"
                    measures.add(name, samples, strategy=each, shape=shape, compute=compute, **about)
            if probes:
                for name, samples in zip(COLLECTIVES, found[len(strategies) * len(SHAPES)]):
                    measures.add("collective", samples, collective=name, bytes=SIZE, **about)
            if ranks == 2:
                add_probe(measures, found[-1], **about)


def parsed() -> argparse.Namespace:
    """Reads the command line."""
    parser = measuring_parser("Measures data-parallel steps over shaped links.", samples=9)
    add = parser.add_argument
    add("--ranks", metavar="N,N", type=counts, default=(1, 2, 4, 8), help="default: 1,2,4,8")
    add("--links", metavar="RATE,RATE", type=rates, default=("1gbit", "100mbit"), help="default: 1gbit,100mbit")
    add("--compute", metavar="MS", type=number(float, 0.1), default=120.0, help="of a pass, slept (default: 120)")
    add("--batch", metavar="N", type=number(int, 8), default=64, help="images of a pass, computed (default: 64)")
    add("--plans", metavar="0|1", type=number(int, 0, 1), default=0, help="1: what modak's own runtime does instead")
    add("--strategies", metavar="0|1", type=number(int, 0, 1), default=0, help="1: those of its plans instead")
    add("--real", metavar="0|1", type=number(int, 0, 1), default=0, help="1: compute in place of sleeping")
    return parser.parse_args()


def counts(text: str) -> tuple[int, ...]:
    """Reads numbers of ranks with commas between them."""
    return tuple(number(int, 1, 64)(each) for each in text.split(","))


def rates(text: str) -> tuple[str, ...]:
    """Reads rates in tc's words, such as 1gbit; none for links that are as fast as this machine."""
    found = tuple(text.split(","))
    if not all(each.isalnum() for each in found):
        raise argparse.ArgumentTypeError(f"{text}: a rate is such as 1gbit or 100mbit")
    return found


def main() -> None:
    """Measures and writes the measures; its network is gone afterwards."""
    arguments = parsed()
    try:
        import torch  # noqa: PLC0415 - --help needs it not
    except ImportError as error:
        give_up(2, f"no PyTorch: {error}")
    measures = Measures("scaling", arguments, [("torch", torch.__version__)])
    with namespaces.network(max(arguments.ranks)) as net:
        (compare if arguments.strategies else measure)(net, measures, arguments)
    measures.finish()


if __name__ == "__main__":
    main()
