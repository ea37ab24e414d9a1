"""Surveys of invented targets, in the form in which the survey role gives them."""

from __future__ import annotations

import copy
from typing import Any

import archspec.cpu

from modak_ansible.discovery.aim import Aim, aim_at
from modak_ansible.discovery.surveying import Entrance, Survey
from modak_ansible.schedulers.cluster import ClusterFacts, NodeKind, PartitionFacts

CPUINFO = {
    "vendor_id": "GenuineIntel",
    "model name": "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz",
    "flags": " ".join(sorted(archspec.cpu.TARGETS["skylake_avx512"].features)),
}
FOLDER = {
    "path": "/home/alice/modak", "there": True, "writable": True, "problem": "", "type": "nfs4", "source": "nas:/home",
    "network": True, "noexec": False, "free_bytes": 10**12, "inodes": 10**8, "free_inodes": 10**7,
}  # fmt: skip
FACTS: dict[str, Any] = {
    "machine": {
        "hostname": "login1", "user": "alice", "python": "3.9.18", "machine": "x86_64", "system": "Rocky Linux 9.3",
        "processor": CPUINFO["model name"], "cpuinfo": CPUINFO, "cores": 8, "memory": 64 * 2**30,
    },
    "rsync": True,
    "schedulers": ["slurm"],
    "scheduler": "slurm",
    "missing": [],
    "containers": {
        "runtime": "/usr/bin/apptainer", "version": "apptainer version 1.3.1", "suid": False, "namespaces": "",
        "range": "", "range_hint": "", "signing": "", "signing_hint": "", "missing": ["debootstrap"],
    },
    "folders": {
        "home": FOLDER, "workspace": FOLDER,
        "build": {**FOLDER, "path": "/tmp", "type": "xfs", "network": False, "problem": ""},
    },
    "quotas": {"asked": "", "limits": []},
    "shell": {"variables": {}, "modules": "Lmod 8.7", "loads": [], "offers": [], "problem": ""},
    "apt_mirror": None,
    "forecast": None,
    "another": "",
    "objection": "",
    "others": [],
    "node": None,
    "gpus": [],
    "hosts": [],
}  # fmt: skip
NODE: dict[str, Any] = {
    "problem": "", "host": "n001", "machine": "x86_64", "processors": 40, "memory": 191 * 2**30,
    "runtimes": ["/usr/bin/apptainer apptainer version 1.3.1"], "same_home": True, "namespaces": True,
    "gpus": [], "makers": [], "cpuinfo": CPUINFO,
    "places": [
        {"name": "$TMPDIR", "path": "/local/123", "type": "xfs", "network": False, "writable": True, "free_bytes": 10**11},
        {"name": "/tmp", "path": "/tmp", "type": "tmpfs", "network": False, "writable": True, "free_bytes": 10**11},
    ],
}  # fmt: skip
THIN = NodeKind(count=60, example="n001", cores=40, layout=(2, 20, 1), memory=191000 * 2**20, machine="x86_64")
FAT = NodeKind(count=4, cores=64, memory=500000 * 2**20, accelerators=(("a100", 4),), machine="x86_64")
BATCH = PartitionFacts(
    "batch", default=True, nodes=60, most_nodes=32, walltime=86400, walltime_said="1-00:00:00", kinds=(THIN,),
    memory_per_core=4000 * 2**20,
)  # fmt: skip
GPU = PartitionFacts("gpu", nodes=64, usual_memory=2**30, own_cores=True, walltime_said="UNLIMITED", kinds=(THIN, FAT))
CLUSTER = ClusterFacts(
    "slurm", "23.02.7", "demo", (BATCH, GPU), accounts=("physics", "chemistry"), default_account="physics",
    needs_account=True, temporary="/tmp",
)  # fmt: skip
ENTRANCE = Entrance(0.4, 0.1, (("/usr/bin/python3.9", "3.9.18"),))


def surveyed(cluster: ClusterFacts | None = CLUSTER, entrance: Entrance = ENTRANCE, **changes: Any) -> Survey:
    """A survey; a change's name is the path of a value, with two underscores between its parts."""
    facts = copy.deepcopy(FACTS)
    facts["cluster"] = cluster.as_json() if cluster else None
    if cluster is None:
        facts.update(scheduler="none", schedulers=[])
    for path, value in changes.items():
        *parts, last = path.split("__")
        place = facts
        for part in parts:
            place = place[part]
        place[last] = value
    return Survey(entrance, facts)


def bare(text: str = "alice@login.example") -> Aim:
    """A host that nobody has described."""
    from modak_ansible.reading.blueprint.inputs import Inputs

    return aim_at(text, Inputs())
