"""A valid blueprint for tests to spoil."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3

metadata:
  template_name: example

imports:
  - types/modak.yaml

topology_template:
  inputs:
    epochs: { type: integer, default: 2 }

  node_templates:
    cluster:
      type: modak.nodes.Slurm
      attributes: { public_address: frontend.example }
      properties:
        username: alice
        partitions:
          - { name: batch, nodes: 4, cores: 8, memory: 16 GB, walltime: "12:00:00" }
          - { name: long, nodes: 2, cores: 8, memory: 16 GB, walltime: "7-00:00:00" }
      capabilities:
        processor: { properties: { architecture: skylake_avx512 } }
        scratch: { properties: { path: /scratch } }

    digits:
      type: modak.nodes.Dataset
      properties:
        name: mnist
        source: [ digits ]
      requirements:
        - host: cluster

    training:
      type: modak.nodes.Training
      properties:
        framework: pytorch
        script: train/train.py
        arguments:
          epochs: { get_input: epochs }
          batch-size: 128
        resources: { cores_per_process: 4 }
        walltime: "00:30:00"
        optimisation: { numerics: same }
      requirements:
        - host: cluster
        - dataset: digits

  outputs:
    job_id:
      value: { get_attribute: [ training, job_id ] }
"""


class BlueprintFolder:
    """A valid blueprint in a folder of its own, for tests to change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.service = path / "service.yaml"
        (path / "train").mkdir(parents=True)
        (path / "train" / "train.py").write_text("print('training')\n")
        (path / "types").symlink_to(ROOT / "tosca" / "types")
        (path / "playbooks").symlink_to(ROOT / "playbooks")
        self.service.write_text(SERVICE)

    def replace(self, old: str, new: str) -> BlueprintFolder:
        text = self.service.read_text()
        assert old in text, f"{old!r} is not in the blueprint"
        self.service.write_text(text.replace(old, new, 1))
        return self
