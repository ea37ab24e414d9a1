"""Measures the network between two processes through gloo, as PyTorch's trainings on processors sum their gradients.

Start one process a node with torchrun's variables: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and GLOO_SOCKET_IFNAME
where the name of a node is an address of its own loopback. Processes that share a machine measure its loopback.
"""

from __future__ import annotations

import os
from datetime import timedelta

from arguments import give_up
from measures import Measures, measuring_parser
from network import machine_name
from probing import add_probe, probe


def main() -> None:
    """Measures; the first process writes the measures."""
    arguments = measuring_parser(__doc__.splitlines()[0], samples=7).parse_args()
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        give_up(2, f"{missing[0]} is not set: start it as torchrun starts scripts, on two nodes")
    if os.environ["WORLD_SIZE"] != "2":
        give_up(2, f"it takes two processes, and there are {os.environ['WORLD_SIZE']}")
    try:
        import torch  # noqa: PLC0415 - --help needs it not
        from torch import distributed  # noqa: PLC0415
    except ImportError as error:
        give_up(2, f"no PyTorch: {error}")
    timeout = timedelta(seconds=int(os.environ.get("MODAK_RENDEZVOUS_TIMEOUT") or 300))
    try:
        distributed.init_process_group("gloo", timeout=timeout)
        names: list[str] = [""] * 2
        distributed.all_gather_object(names, machine_name())
        measures = None
        if distributed.get_rank() == 0:
            measures = Measures("network", arguments, [("torch", torch.__version__)])
        found = probe(arguments.samples)
    except RuntimeError as error:
        give_up(1, f"the processes could not meet: {' '.join(str(error).split())[:300]}")
    if measures:
        add_probe(measures, found, processes=2, machines=len(set(names)))
        measures.finish()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
