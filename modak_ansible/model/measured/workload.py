"""A workload: the scripts that do one piece of work with different frameworks, and the switches that each knows."""

from typing import Literal

from pydantic import Field

from modak_ansible.model.base import Model
from modak_ansible.model.measured.work import Work


class WorkloadScript(Model):
    """The script for some frameworks."""

    framework: str = Field(description="as in the catalogue's entries, or any")
    versions: str = Field(default="", description="of the framework, such as >=2.16 or <2; empty for all")
    script: str = Field(description="its name in the workload's folder")
    switches: dict[str, tuple[str, ...]] = Field(
        default={}, description="values by the name of the script's option, with _ for -; the first is the default"
    )


class Workload(Model):
    """What a folder of benchmarks/ holds, as its workload.yaml says."""

    name: str = Field(description="the folder's name")
    title: str
    kind: Literal["training", "infrastructure"]
    dataset: bool = Field(default=False, description="whether it reads the blueprint's dataset")
    nodes: int = Field(default=1, description="that it needs at least")
    parameters: int | None = Field(default=None, description="trainable ones, which every script counts")
    gflop_per_image: float | None = Field(
        default=None, description="GFLOP of one training step for each image: forward and backward"
    )
    layers: int | None = Field(default=None, ge=1, description="that multiply: convolutions, dense ones, attentions")
    bytes_per_image: int | None = Field(default=None, ge=1, description="of a sample as the network gets it")
    scripts: tuple[WorkloadScript, ...]
    traced: dict[str, Work] = Field(
        default={}, description="by network, what a trace tells of its work; written by benchmarks/trace_networks.py"
    )
