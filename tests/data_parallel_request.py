"""A training whose four processes share their gradients over a slow network, as the model of what ships is asked of it."""

from __future__ import annotations

from typing import Any

from modak_ansible.model.application import Application, Optimisation, Resources
from modak_ansible.model.distributed import Distributed
from modak_ansible.model.measured.need import Need
from modak_ansible.model.measured.work import Work
from modak_ansible.model.request import Request
from modak_ansible.model.target import Network, Processor, Scheduler, Target

SLOW, FAST = Network(latency=323, bandwidth=0.01187), Network(latency=2, bandwidth=12.5)


def data_parallel_request(
    *,
    nodes: int = 4,
    strategy: Any = "auto",
    network: Network | None = SLOW,
    memory: int | None = None,
    need: Need | None = None,
    **wanted: Any,
) -> Request:
    """Args: memory: bytes of each node; need: the training's trace; wanted: of the optimisation."""
    return Request(
        blueprint="example",
        training="train",
        target=Target(
            name="cluster",
            scheduler=Scheduler.SLURM,
            network=network,
            processor=Processor(cores=1, architecture="x86_64_v4", model="AMD EPYC", peak_gflops=100.0),
        ),
        application=Application(
            name="example",
            framework="pytorch",
            script="train.py",
            prepares=True,
            distributed=Distributed(strategy=strategy),
            work=Work(workload="mnist_cnn", samples=60_000, epochs=12, batch_size=512),
        ),
        resources=Resources(nodes=nodes, processes_per_node=1, memory=memory),
        optimisation=Optimisation(**wanted),
        need=need,
    )
