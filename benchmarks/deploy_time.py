"""How long a deployment takes beyond the bare commands that it stands for: apptainer build and sbatch.

    python benchmarks/deploy_time.py [--rounds 5] [--testbed .modak/testbed]

Each round deploys a training whose image lacks its last layer, deploys it once more with nothing changed, and then
gives the target's own commands the same definition and the same job script. The image of PyTorch must be there, and the
machine should be free. Everything is removed in the end.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from campaign_time import ROOT, RUN, arguments, project, timed

BLUEPRINT = """\
tosca_definitions_version: tosca_simple_yaml_1_3
metadata: { template_name: deploy-time }
imports: [ types/modak.yaml ]
topology_template:
  node_templates:
    cluster:
      type: modak.nodes.Slurm
      attributes: { public_address: testbed }
      properties: { partitions: [ { name: debug, nodes: 2, cores: 1, memory: 4000 MB } ] }
    train:
      type: modak.nodes.Training
      properties:
        framework: pytorch
        script: train/train.py
        walltime: "00:05:00"
        requirements_txt: [ six==1.16.0 ]
        optimisation: { entry: pytorch-2.13-cpu }
      requirements: [ { host: cluster } ]
"""

# What modak's modules run on the target, run there by itself: the same definition, settings and options, and as
# apptainer does it unless it is told otherwise, the test in the definition.
BARE_BUILD = """
import json, os, shutil, subprocess, sys, time, types
from pathlib import Path
package = types.ModuleType("modak")
package.__path__ = [sys.argv[1]]
sys.modules["modak"] = package
from modak.target.core.container import find_runtime
from modak.target.core.workspace import Workspace
from modak.target.images.image import ImageStore

class Bare(ImageStore):
    def _run(self, command, activity, environment, about=""):
        began = time.monotonic()
        subprocess.run([word for word in command if word != "--notest"], env=dict(os.environ, **environment),
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        print(time.monotonic() - began)

plan = json.load(sys.stdin)
layers = plan["image"]["layers"]
workspace = Workspace(plan["target"]["workspace"])
scratch = workspace.images / ".bare"
scratch.mkdir()
try:
    below = workspace.place(layers[-2]["path"])
    Bare(workspace, plan["image"], plan["target"]["site"])._build(find_runtime("any"), layers[-1], below, scratch, None)
finally:
    shutil.rmtree(scratch)
"""
BARE_JOB = """
cd "$1" && rm -rf state && mkdir state || exit 1
began=$(date +%s.%N)
id=$(sbatch --parsable job.sh)
while squeue --noheader --jobs="$id" 2> /dev/null | grep -q .; do sleep 0.1; done
[ "$(cat state/finished)" = 0 ] || exit 1
echo "$began $(date +%s.%N)" | awk '{ print $2 - $1 }'
"""


def main() -> None:
    options = arguments(__doc__, "rounds", 5)
    with tempfile.TemporaryDirectory(prefix="modak-deploy-") as temporary:
        folder = project(Path(temporary), 1, options.testbed)
        (folder / "service.yaml").write_text(BLUEPRINT, encoding="utf-8")
        shell = ["ssh", "-F", str(options.testbed.resolve() / "ssh_config"), "testbed"]
        _, planned = timed([sys.executable, "-c", RUN, "plan", ".", "--json"], folder)
        report([one_round(folder, shell, json.loads(planned)) for _ in range(options.rounds)])


def one_round(folder: Path, shell: list[str], plan: dict) -> dict[str, float]:
    """Seconds of the deployment, of the same again, and of the bare commands."""
    modak = [sys.executable, "-c", RUN]
    layer = Path("modak", plan["image"]["path"])
    try:
        deploy, said = timed([*modak, "deploy", ".", "--json"], folder)
        again, _ = timed([*modak, "deploy", ".", "--json"], folder)
        answer = json.loads(said)
        if not answer["stages"]["image"]["changed"]:
            sys.exit("the image was there already")
        build = on_target(shell, f"python3 -c {shlex.quote(BARE_BUILD)} .modak-bare", json.dumps(plan))
        job = on_target(shell, f"bash -c {shlex.quote(BARE_JOB)} bash modak/deployments/{answer['deployment']}", "")
    finally:
        timed([*modak, "undeploy", "."], folder)
        on_target(shell, f"rm -f {layer.with_suffix('')}.*", "")
    return {"deploy": deploy, "again": again, "build": build, "job": job, "beyond": deploy - build - job}


def on_target(shell: list[str], command: str, given: str) -> float:
    """The number that a command prints there; 0 for none. What the modules import is brought for as long as it runs."""
    archive = subprocess.run(
        ["tar", "-C", str(ROOT / "modak_ansible"), "-c", "errors.py", "schedulers", "target"],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    subprocess.run([*shell, "mkdir -p .modak-bare && tar -C .modak-bare -x"], input=archive, check=True)
    try:
        done = subprocess.run([*shell, command], input=given, capture_output=True, text=True, check=False)
    finally:
        subprocess.run([*shell, "rm -r .modak-bare"], check=True)
    if done.returncode:
        sys.exit(f"{command[:80]}...\n{done.stdout}{done.stderr}")
    return float(done.stdout.split()[-1]) if done.stdout.strip() else 0.0


def report(rounds: list[dict[str, float]]) -> None:
    print(f"{len(rounds)} rounds, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; medians, least to most")
    titles = {
        "deploy": "modak deploy, a layer to build", "build": "bare apptainer build",
        "job": "bare sbatch, to the job's end",
        "beyond": "deploy beyond the bare commands", "again": "the same deploy again",
    }  # fmt: skip
    for name, title in titles.items():
        seconds = sorted(times[name] for times in rounds)
        print(f"{title:<32} {statistics.median(seconds):6.1f} s  ({seconds[0]:.1f} to {seconds[-1]:.1f})")


if __name__ == "__main__":
    main()
