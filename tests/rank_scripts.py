"""A deployment whose job script is run here, as that of a training in several processes."""

from __future__ import annotations

import os
import subprocess

from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Scheduler
from modak_ansible.schedulers.script import Launch, ScriptParts, render_script
from modak_ansible.target.jobs.markers import failed_rank

# A scheduler's launcher with as many processes as it is told, and its controller, which knows two nodes.
_SRUN = """#!/bin/bash
shift
for ((each = 0; each < COUNT; each++)); do VARIABLE=$each "$@" & pids+=("$!"); done
code=0
for each in "${pids[@]}"; do wait "$each" || code=$?; done
exit "$code"
"""
_SCONTROL = """#!/bin/bash
if [ "$2" = hostnames ]; then printf '%s\\n' node01 node02; exit; fi
echo "NodeName=$4 NodeAddr=ADDRESS NodeHostName=vm"
"""


class Deployment:
    def __init__(self, folder):
        self.folder = folder / "deployments" / "one"
        (self.folder / "code").mkdir(parents=True)
        self.tools = folder / "tools"
        self.tools.mkdir()
        self.environment = {"PATH": f"{self.tools}:{os.environ['PATH']}", "HOME": str(folder)}

    def tool(self, name, text):
        (self.tools / name).write_text(text)
        (self.tools / name).chmod(0o755)

    def slurm(self, count, *, variable="SLURM_PROCID", address="127.0.0.2"):
        self.tool("srun", _SRUN.replace("COUNT", str(count)).replace("VARIABLE", variable))
        self.tool("scontrol", _SCONTROL.replace("ADDRESS", address))
        self.environment |= {"SLURM_SUBMIT_DIR": str(self.folder), "SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "x"}

    def write(self, shell, ranks, scheduler="none", **changes):
        launch = Launch(() if ranks.is_local else ("srun", "--kill-on-bad-exit=1"), ranks=ranks)
        parts = ScriptParts(image="", python="", script="", command=("sh", "-c", shell), launch=launch)
        job = PlannedJob(
            scheduler=Scheduler(scheduler), name="example", nodes=ranks.count // ranks.each, script="", environment={},
            processes_per_node=ranks.each, cores_per_process=1, threads=1, **{"walltime": 600, **changes},
        )  # fmt: skip
        text = render_script(job, parts)
        (self.folder / "job.sh").write_text(text)

    def start(self):
        return subprocess.Popen(["bash", "job.sh"], cwd=self.folder, env=self.environment)

    def run(self, shell, ranks, scheduler="none", **changes):
        self.write(shell, ranks, scheduler, **changes)
        return self.start().wait()

    def log(self, rank=0, name="output"):
        return (self.folder / (f"ranks/{rank}" if rank else ".") / f"{name}.log").read_text()

    @property
    def failed(self):
        found = failed_rank(self.folder / "state")
        return found and (found.number, found.code)
