"""Measures data-parallel steps of 2 and of all nodes of a job: PyTorch's own DDP over gloo, a process a node.

It is started as torchrun starts scripts. The compute of a pass is slept, which each measure says; what is sent is real.
Between the first two nodes the network is probed by all-reduces of gloo's own. What rate the links have is set by
others, and told here.
"""

from __future__ import annotations

import os
from datetime import timedelta

from arguments import give_up, number
from measures import Measures, measuring_parser
from probing import add_probe, probe

SETTINGS = ("none", "default", "fp16", "accumulate_4")
TIMEOUT = timedelta(seconds=120)


def main() -> None:
    """Measures; the first process writes the measures."""
    parser = measuring_parser(__doc__.splitlines()[0], samples=9)
    parser.add_argument("--link", metavar="RATE", default="none", help="that the links have, for the record")
    parser.add_argument(
        "--compute", metavar="MS", type=number(float, 0.1), default=120.0, help="of a pass, slept (default: 120)"
    )
    arguments = parser.parse_args()
    if "RANK" not in os.environ:
        give_up(2, "RANK is not set: start it as torchrun starts scripts, a process a node")
    import torch  # noqa: PLC0415 - --help needs it not
    from steps import steps  # noqa: PLC0415
    from torch import distributed  # noqa: PLC0415

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", timeout=TIMEOUT)
    rank, world = distributed.get_rank(), distributed.get_world_size()
    measures = Measures("scaling_nodes", arguments, [("torch", torch.__version__)]) if rank == 0 else None
    for ranks in sorted({2, world}):
        group = distributed.new_group(list(range(ranks)))
        if rank < ranks:
            about = {
                "ranks": ranks,
                "link": arguments.link,
                "scaling": "weak",
                "compute": f"slept {arguments.compute:g} ms",
            }
            for setting in SETTINGS:
                task = {"steps": arguments.samples, "setting": setting, "sleep": arguments.compute / 1e3}
                found = steps(task, group)
                if measures:
                    measures.add("step", found, setting=setting, **about)
            probed = probe(arguments.samples, group) if ranks == 2 else None
            if measures and probed:
                add_probe(measures, probed, ranks=2, link=arguments.link)
        distributed.barrier()
    if measures:
        measures.finish()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
