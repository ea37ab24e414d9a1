"""Measures the network between processes with MPI: latency, bandwidth, and the allreduce of a ResNet50's gradients.

Start one process a node, such as with `srun --nodes=2 --ntasks-per-node=1 --mpi=pmix`. Processes that share a machine
talk through its memory: the measures say on how many machines they ran and by which ways MPI may have sent.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import machine
from arguments import give_up, number
from measures import Measures, measuring_parser

if TYPE_CHECKING:
    from mpi4py import MPI

LATENCY_BYTES = 8
MESSAGES = (LATENCY_BYTES, 1024, 64 * 1024, 1024**2, 4 * 1024**2)  # bytes
RESNET50 = 25_557_032  # float32 gradients, one for each parameter
SAMPLE_BYTES = 64 * 1024**2  # of messages in a sample, or
SAMPLE_ROUNDS = 1000  # of them, whichever is less


def rounds(message: int) -> int:
    """Returns how often a message of so many bytes goes to and fro in one sample."""
    return max(4, min(SAMPLE_ROUNDS, SAMPLE_BYTES // message))


def ping_pong(world: MPI.Comm, message: int, samples: int) -> list[float]:
    """Returns the seconds of one way of a message between the first two processes, in each sample."""
    buffer, count, seconds = bytearray(message), rounds(message), []
    for _ in range(samples + 1):  # the first connects the processes
        world.Barrier()
        started = machine.clock()
        for _ in range(count):
            if world.rank == 0:
                world.Send(buffer, 1)
                world.Recv(buffer, 1)
            elif world.rank == 1:
                world.Recv(buffer, 0)
                world.Send(buffer, 0)
        seconds.append((machine.clock() - started) / count / 2)
    return seconds[1:]


def all_reduce(world: MPI.Comm, floats: int, samples: int) -> list[float]:
    """Returns the seconds of summing so many float32 over all processes, in each sample.

    Raises:
        ArithmeticError: a sum is wrong.
    """
    from array import array  # noqa: PLC0415 - numpy is not needed for this alone

    from mpi4py import MPI  # noqa: PLC0415 - importing it starts MPI

    mine, sums, seconds = array("f", [world.rank + 1.0]) * floats, array("f", [0.0]) * floats, []
    for _ in range(samples + 1):
        world.Barrier()
        started = machine.clock()
        world.Allreduce([mine, MPI.FLOAT], [sums, MPI.FLOAT], MPI.SUM)
        seconds.append(machine.clock() - started)
    expected = world.size * (world.size + 1) / 2
    if not sums[0] == sums[floats // 2] == sums[-1] == expected:
        raise ArithmeticError(f"a sum over {world.size} processes is {sums[0]} instead of {expected}")
    return seconds[1:]


def machine_name() -> str:
    """Returns what tells this machine from others; nodes of a simulated cluster share one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return socket.gethostname()


def transports() -> str:
    """Returns the ways by which OpenMPI can send here, as its own tool lists them; empty with another MPI."""
    try:
        done = subprocess.run(["ompi_info", "--parsable"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return ",".join(transport_names(done.stdout))


def transport_names(listing: str) -> list[str]:
    """Returns the names of the transports in what `ompi_info --parsable` prints: lines mca:btl:NAME:version:..."""
    words = [line.split(":") for line in listing.splitlines()]
    return sorted({each[2] for each in words if each[:2] == ["mca", "btl"] and each[2:3] not in ([], ["base"])})


def settings() -> str:
    """Returns what the environment tells OpenMPI of its ways, such as the interfaces that a site wants taken."""
    found = (re.fullmatch(r"OMPI_MCA_((?:btl|mtl|pml)(?:_.+)?)", name) for name in os.environ)
    return " ".join(sorted(f"{each[1]}={os.environ[each[0]]}" for each in found if each))


def measure(world: MPI.Comm, measures: Measures | None, samples: int, floats: int, about: dict[str, Any]) -> None:
    """Runs every benchmark on all processes; the first has the measures."""
    for message in MESSAGES:
        seconds = ping_pong(world, message, samples)
        if measures and message == LATENCY_BYTES:
            measures.add("latency", seconds, bytes=message, **about)
        elif measures:
            measures.add("bandwidth", [message / each / 1e9 for each in seconds], bytes=message, **about)
    seconds = all_reduce(world, floats, samples)
    if measures:
        measures.add("allreduce", seconds, bytes=4 * floats, **about)


def main() -> None:
    """Measures; the first process writes the measures."""
    parser = measuring_parser(__doc__.splitlines()[0], samples=7)
    parser.add_argument(
        "--floats",
        metavar="N",
        type=number(int, 1),
        default=RESNET50,
        help="that the allreduce sums (default: %(default)s, the parameters of a ResNet50)",
    )
    arguments = parser.parse_args()
    try:
        import mpi4py  # noqa: PLC0415
        from mpi4py import MPI  # noqa: PLC0415 - importing it starts MPI, which --help needs not
    except ImportError as error:
        give_up(2, f"no MPI for Python: {error}")
    if MPI.COMM_WORLD.size < 2:
        give_up(2, "one process alone: at least two must be started together, such as by srun --mpi=pmix")
    try:
        run(MPI.COMM_WORLD, arguments, [("mpi4py", mpi4py.__version__), ("mpi", mpi_name(MPI.Get_library_version()))])
    except (MPI.Exception, ArithmeticError) as error:
        sys.stderr.write(f"error: {error}; the lines of MPI above may say more\n")
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)  # the others would wait for ever


def mpi_name(version: str) -> str:
    """Returns the library and its version from MPI's long text, such as Open MPI v5.0.7."""
    return version.split(",", maxsplit=1)[0].strip("\0 ")


def run(world: MPI.Comm, arguments: argparse.Namespace, versions: list[tuple[str, str]]) -> None:
    """Measures on all processes and lets the first write."""
    names = world.gather((machine_name(), os.environ.get("SLURMD_NODENAME", socket.gethostname())))
    measures, about = None, {}
    if names:  # only the first process has them
        measures = Measures("network", arguments, versions)
        about = {
            "processes": world.size,
            "nodes": len({node for _, node in names}),
            "machines": len({name for name, _ in names}),
            "transports": transports(),
            "settings": settings(),
        }
    began = time.process_time()
    measure(world, measures, arguments.samples, arguments.floats, about)
    spent = world.gather((machine_name(), time.process_time() - began))
    if measures and spent:
        measures.belong(sum(seconds for name, seconds in spent[1:] if name == spent[0][0]))
        measures.finish()


if __name__ == "__main__":
    main()
