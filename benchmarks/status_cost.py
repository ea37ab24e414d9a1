"""What modak status costs with many jobs: the whole command, timed, over real jobs of a real scheduler.

    python benchmarks/status_cost.py --jobs 1000 --ended 400 --rounds 5

Jobs are submitted held to the target of a blueprint, and some of them cancelled; each has a deployment of its own here
and on the target. All of it is removed again. The same is timed with one job, and so is entering the target by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from campaign_time import processor

import modak_ansible as modak
from modak_ansible.store.record import DeploymentRecord
from modak_ansible.transport.ssh import Connection, connect

MODAK = Path(sys.executable).with_name("modak")
NAME = f"cost-{uuid.uuid4().hex[:6]}"

# Makes the deployments' folders on the target and submits a held job for each; prints the jobs' ids.
SUBMIT = """
mkdir -p "$1" && cd "$1" || exit 1
while read -r name; do
    mkdir -p "$name/state"
    id=$(cd "$name" && sbatch --parsable --hold --time=1 --mem=10M --job-name="$name" --wrap=true < /dev/null) || exit 1
    echo "{\\"job_id\\": \\"$id\\", \\"time\\": 0}" > "$name/state/submitted.json"
    echo "$id"
done
"""
REMOVE = """
squeue --noheader --me --format=%A,%j | grep ",$2-" | cut -d, -f1 | xargs -r scancel
rm -rf "$1/$2"-*
"""


def main() -> None:
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="modak-status-cost-") as folder:
        os.chdir(folder)
        (Path(folder) / ".modak").mkdir()
        if given.testbed:
            (Path(folder) / ".modak" / "testbed").symlink_to(given.testbed)
        (planned,) = modak.plan(given.blueprint, inputs=given.inputs)
        template = planned.save(Path(folder) / "template")
        target = connect(planned.plan.target, planned.testbed, planned.blueprint.parent, template)
        remote = f"{planned.plan.target.workspace}/deployments"
        names = [f"{NAME}-{number:012x}" for number in range(given.jobs)]
        try:
            ids = on(target, SUBMIT, remote, lines=names).split()
            on(target, f"scancel {' '.join(ids[: given.ended])}" if given.ended else "true")
            report(template, planned.folder.parent, target, names, given.rounds)
        finally:
            on(target, REMOVE, remote, NAME)


@dataclass(frozen=True)
class Cost:
    """Seconds of a command: by the clock, and of processors on this side of the connection."""

    wall: float
    here: float


def report(template: Path, deployments: Path, target: Connection, names: list[str], rounds: int) -> None:
    """Times each matter in turn, round by round, and prints the medians."""
    many = f"{len(names)} jobs"
    matters: dict[str, list[Cost]] = {
        "entering the target": [], "one job": [], "the same again": [], f"{many}, all news": [], f"{many} again": []
    }  # fmt: skip
    for number in range(rounds + 1):
        seconds = (
            timed([*target.ssh_command(), "-o", "ControlPath=none", target.address, "true"]),
            *status(template, deployments, names[-1:]),
            *status(template, deployments, names),
        )
        for cost, costs in zip(seconds, matters.values(), strict=True):
            if number:  # the first round warms what others would have warmed
                costs.append(cost)
    for title, costs in matters.items():
        wall = sorted(cost.wall for cost in costs)
        here = statistics.median(cost.here for cost in costs)
        print(
            f"{title:<22} {statistics.median(wall):6.2f} s  ({wall[0]:.2f} to {wall[-1]:.2f})"
            f"  {here:5.2f} s of processors here"
        )


def status(template: Path, deployments: Path, names: list[str]) -> tuple[Cost, Cost]:
    """What a command costs that asks for those deployments: when each has news, and right after, when none has."""
    plan, origin = (json.loads((template / file_name).read_text()) for file_name in ("plan.json", "origin.json"))
    for name in names:
        folder = deployments / name
        folder.mkdir(parents=True)
        for file, value in (("plan", {**plan, "digest": name}), ("origin", origin)):
            (folder / f"{file}.json").write_text(json.dumps(value, indent=2, sort_keys=True))
        DeploymentRecord(folder).update(job={"state": "QUEUED", "job_id": "1"})
    os.sync()  # else the first to wait for the disk waits for these, too
    first, again = (timed([str(MODAK), "status"], lines=len(names) + 1) for _ in range(2))
    shutil.rmtree(deployments)
    return first, again


def timed(command: list[str], lines: int | None = None) -> Cost:
    began, before = time.perf_counter(), processor()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    cost = Cost(time.perf_counter() - began, processor() - before)
    if lines is not None and len(done.stdout.splitlines()) != lines:
        sys.exit(f"{' '.join(command)} printed {len(done.stdout.splitlines())} lines:\n{done.stdout[:2000]}")
    return cost


def on(target: Connection, script: str, *words: str, lines: Sequence[str] = ()) -> str:
    """What a script prints on the target."""
    command = [*target.ssh_command(), target.address, shlex.join(["bash", "-c", script, "bash", *words])]
    text = "".join(f"{line}\n" for line in lines)
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--ended", type=int, default=0, help="how many of them were cancelled since the last look")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--blueprint", default="mnist-pytorch-slurm")
    parser.add_argument("--inputs", type=Path)
    folder = "the testbed's folder, where the target is that"
    parser.add_argument("--testbed", type=lambda path: Path(path).resolve(), help=folder)
    return parser.parse_args()


if __name__ == "__main__":
    main()
