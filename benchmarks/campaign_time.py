"""How long many trainings of one blueprint take to be deployed, against the bare sbatch of the same scripts.

    python benchmarks/campaign_time.py [--trainings 200] [--testbed .modak/testbed]

Deploys a sweep with ``modak deploy --detach`` to the testbed, whose image must be there; the jobs are deferred for a
year, so that nothing runs and nobody waits behind them. Then the same scripts are submitted again by a loop in the
shell of the front end: what the scheduler itself needs. Everything is removed in the end.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUN = "from modak_ansible.commands.main import run; run()"
BLUEPRINT = """\
tosca_definitions_version: tosca_simple_yaml_1_3
metadata: {{ template_name: campaign-time }}
imports: [ types/modak.yaml ]
topology_template:
  node_templates:
    cluster:
      type: modak.nodes.Slurm
      attributes: {{ public_address: testbed }}
      properties: {{ partitions: [ {{ name: debug, nodes: 2, cores: 1, memory: 4000 MB }} ] }}
    train:
      type: modak.nodes.Training
      properties:
        framework: pytorch
        script: train/train.py
        arguments: {{ seed: 0 }}
        sweep: {{ seed: {seeds} }}
        walltime: "00:05:00"
        job_options: {{ defer_job: "{begin}" }}
        optimisation: {{ entry: pytorch-2.13-cpu }}
      requirements: [ {{ host: cluster }} ]
"""


def project(folder: Path, trainings: int, testbed: Path) -> Path:
    """A project with a blueprint of one sweep."""
    (folder / "train").mkdir()
    (folder / "train" / "train.py").write_text("print('hello')\n", encoding="utf-8")
    (folder / ".modak").mkdir()
    (folder / ".modak" / "testbed").symlink_to(testbed.resolve())
    for name, target in (("types", "tosca/types"), ("playbooks", "playbooks")):
        (folder / name).symlink_to(ROOT / target)
    begin = (datetime.now() + timedelta(days=365)).isoformat(timespec="seconds")
    text = BLUEPRINT.format(seeds=list(range(trainings)), begin=begin)
    (folder / "service.yaml").write_text(text, encoding="utf-8")
    return folder


def processor() -> float:
    """Seconds of the processor that ended commands have taken, here and not on the target."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(command: list[str], folder: Path) -> tuple[float, str]:
    """Seconds that a command takes, and what it prints."""
    began = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return time.monotonic() - began, done.stdout


def arguments(description: str | None, name: str, count: int) -> argparse.Namespace:
    """The command line of a benchmark that drives the testbed so many times."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--testbed", type=Path, default=ROOT / ".modak" / "testbed")
    return parser.parse_args()


def main() -> None:
    options = arguments(__doc__, "trainings", 200)
    with tempfile.TemporaryDirectory(prefix="modak-campaign-") as temporary:
        folder = project(Path(temporary), options.trainings, options.testbed)
        modak = [sys.executable, "-c", RUN]
        playbook = [str(Path(sys.executable).parent / "ansible-playbook"), str(ROOT / "playbooks" / "undeploy.yml")]
        shell = ["ssh", "-F", str(options.testbed / "ssh_config"), "testbed"]
        try:
            before = processor()
            deploy, output = timed([*modak, "deploy", ".", "--detach", "--json"], folder)
            used = processor() - before
            names = [training["deployment"] for training in json.loads(output)["trainings"]]
            again, _ = timed([*modak, "deploy", ".", "--detach", "--json"], folder)
            submission = "cd ~/modak/deployments/$name && sbatch --parsable --job-name=campaign-bare job.sh > /dev/null"
            loop = f"for name in {' '.join(names)}; do ( {submission} ) || exit 1; done"
            bare, _ = timed([*shell, loop], folder)
        finally:
            timed([*shell, "scancel --name=campaign-bare"], folder)
            undeploy, _ = timed([*playbook, "-e", f"blueprint={folder}"], folder)
    print(f"{options.trainings} trainings, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"modak deploy --detach   {deploy:6.1f} s, {used:.1f} s of the processor here")
    print(f"bare sbatch, in a loop  {bare:6.1f} s")
    print(f"beyond the scheduler    {deploy - bare:6.1f} s")
    print(f"the same deploy again   {again:6.1f} s")
    print(f"undeploy of all         {undeploy:6.1f} s")


if __name__ == "__main__":
    main()
