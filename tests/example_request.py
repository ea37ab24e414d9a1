"""A valid request in a folder of its own, for tests to spoil."""

from __future__ import annotations

import copy
import json

from example_blueprint import ROOT

from modak_ansible.planning.service import plan_blueprint, request_of
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.reading.requests.reader import read_request

TRAINING = {
    "job": {
        "job_options": {
            "job_name": "mnist",
            "wall_time_limit": "36:00:00",
            "node_count": 1,
            "process_count_per_node": 1,
            "core_count_per_process": 4,
        },
        "target": {"name": "cluster", "job_scheduler_type": "slurm"},
        "application": {
            "app_tag": "mnist-training",
            "app_type": "ai_training",
            "executable": "train/train.py",
            "arguments": "--epochs 3 --data {dataset}",
        },
        "optimisation": {
            "app_type": "ai_training",
            "enable_autotuning": False,
            "app_type-ai_training": {
                "config": {"ai_framework": "pytorch", "type": "image_classification", "parameters": 1199882},
                "data": {"basedata": "MNIST", "size": 47040000, "count": 60000},
                "ai_framework-pytorch": {"version": "2.13"},
            },
        },
    }
}

PROGRAM = {
    "job": {
        "job_options": {"job_name": "solver", "wall_time_limit": "1:00:00"},
        "target": {"name": "cluster"},
        "application": {"app_type": "mpi", "executable": "train/train.py", "mpi_ranks": 8},
        "optimisation": {
            "app_type": "hpc",
            "app_type-hpc": {
                "config": {"parallelisation": "mpi"},
                "parallelisation-mpi": {"library": "openmpi", "version": "5"},
            },
        },
    }
}

TARGETS = """\
tosca_definitions_version: tosca_simple_yaml_1_3
imports: [ types/modak.yaml ]
topology_template:
  node_templates:
    cluster:
      type: modak.nodes.Slurm
      attributes: { public_address: frontend.example }
      properties:
        username: alice
        partitions:
          - { name: batch, nodes: 4, cores: 8, memory: 16 GB, walltime: "7-00:00:00" }
          - { name: gpu, nodes: 4, cores: 8, memory: 16 GB, walltime: "7-00:00:00", accelerators: 2 }
      capabilities:
        processor: { properties: { architecture: skylake_avx512 } }
        home: { properties: { path: /home, class: default-common } }
        scratch: { properties: { path: /scratch, class: default-ssd } }
    pbs:
      type: modak.nodes.Torque
      attributes: { public_address: pbs.example }
      properties:
        partitions: [ { name: batch, nodes: 4, cores: 8, memory: 16 GB, walltime: "7-00:00:00" } ]
      capabilities:
        site: { properties: { launcher: mpirun } }
"""


class RequestFolder:
    """A request and what lies beside it."""

    def __init__(self, path, content):
        self.path = path
        self.content = copy.deepcopy(content)
        self.file = path / "request.json"
        (path / "train").mkdir(parents=True)
        (path / "train" / "train.py").write_text("print('training')\n")
        (path / "targets.yaml").write_text(TARGETS)
        (path / "types").symlink_to(ROOT / "tosca" / "types")
        (path / ".modak").mkdir()
        self.write()

    def write(self):
        self.file.write_text(json.dumps(self.content, indent=2))

    def set(self, dotted, value):
        """Sets a field by its dotted path; None takes it away."""
        *path, last = dotted.split("/")
        owner = self.content["job"]
        for name in path:
            owner = owner.setdefault(name, {})
        if value is None:
            owner.pop(last, None)
        else:
            owner[last] = value
        self.write()
        return self

    def read(self, **inputs):
        """The request, the mistakes and the warnings, each of the latter as text."""
        mistakes = Mistakes()
        blueprint = read_request(self.file, Inputs(**inputs), mistakes)
        warnings = [str(warning) for warning in blueprint.warnings]
        return next(iter(blueprint.requests), None), [str(mistake) for mistake in mistakes], warnings

    @property
    def request(self):
        return request_of(self.file, Inputs())

    @property
    def plan(self):
        return plan_blueprint(self.file, Inputs()).plan

    @property
    def mistakes(self):
        return "\n".join(self.read()[1])

    @property
    def warnings(self):
        return "\n".join(self.read()[2])
