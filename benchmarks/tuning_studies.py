"""Studies of tuning: modak tune of scripts that no record knows, and of a known one on a machine that none knows.

    python benchmarks/tuning_studies.py -o studies.jsonl [--rounds 3] [CASE ...]
    python benchmarks/tuning_studies.py --table studies.jsonl

Each round tunes every case anew, in a project of its own that knows nothing of the others. Wants the testbed up (its
nodes have a core each) and a machine that is otherwise free; cases with two cores run on this machine, without a
container.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import geometric_mean

from campaign_time import ROOT, RUN, timed

SCRIPT, RECORDS = ROOT / "benchmarks" / "tuning" / "train.py", ROOT / "benchmarks" / "records"
MODELS = ("separable", "recommender", "recurrent", "waves", "cells", "denoiser")
CASES = {
    **{model: {"model": model} for model in MODELS},
    **{f"{model}-threads": {"model": model, "cores": 2} for model in ("recommender", "recurrent", "cells")},
    "mnist-foreign": {"blueprint": "mnist-pytorch-slurm"},
}
BLUEPRINT = """\
tosca_definitions_version: tosca_simple_yaml_1_3
metadata: {{ template_name: {name}, target: {target} }}
imports: [ types/modak.yaml ]
topology_template:
  node_templates:
    cluster: {{ type: {type} }}
    training:
      type: modak.nodes.Training
      properties:
        framework: pytorch
        script: train.py
        arguments: {{ model: {model} }}
        walltime: "01:00:00"
        resources: {{ cores_per_process: {cores} }}
        optimisation: {{ numerics: reassociation }}
      requirements: [ {{ host: cluster }} ]
"""


def study(name, case, number, asked):
    """One tuning, in a project that knows nothing of others: its report, as a dictionary."""
    folder = Path(tempfile.mkdtemp(prefix=f"study-{name}-"))

    def modak(*words):
        return timed([sys.executable, "-c", RUN, *words], folder)[1]

    try:
        blueprint = case.get("blueprint", ".")
        if "model" in case:
            shutil.copy(SCRIPT, folder)
            cores = case.get("cores", 1)
            target = ("local", "modak.nodes.Local") if cores > 1 else ("testbed", "modak.nodes.Slurm")
            about = {"name": name, "target": target[0], "type": target[1], "model": case["model"], "cores": cores}
            (folder / "service.yaml").write_text(BLUEPRINT.format(**about))
            modak("trace", blueprint)
        else:
            (folder / "others.jsonl").write_text(of_other_machines())
            modak("model", "fit", "--records", "others.jsonl")
        found = json.loads(modak("tune", blueprint, "--budget", str(asked.budget + number), "--json"))
        for row in found["candidates"]:
            del row["steps"]  # they are among those of the trials
        report = next(folder.glob(".modak/deployments/*-tune-*/results/tuning.json"))
        for kind in ("tune", "trace") if "model" in case else ("tune",):
            modak("undeploy", f"{case.get('blueprint', name)}-{kind}")
        return {"case": name, "round": number, **found, "trials": numbers(json.loads(report.read_text())["trials"])}
    finally:
        shutil.rmtree(folder)


def numbers(trials):
    """What trials measured, without what they tell of the machine."""
    kept = ("count", "median_seconds", "p10_seconds", "p90_seconds", "to_first_step_seconds", "foreign_cores")
    return [
        {
            **{key: trial.get(key) for key in ("candidate", "rung", "score", "reason")},
            **{key: (trial.get("steps") or {}).get(key) for key in kept},
        }
        for trial in trials
    ]


def of_other_machines():
    """The records that ship, of processors that are not this one's, as lines."""
    processor = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    name, lines = processor.partition(":")[2].strip(), []
    for path in sorted(RECORDS.glob("*.jsonl")):
        if "peaks" not in path.name and "zen4" not in path.name:
            lines += path.read_text().splitlines(keepends=True)
    print(f"{len(lines)} records of others than this {name}", file=sys.stderr)
    return "".join(lines)


def table(studies):
    """A line for each case: what the plan is over stock, and what every round found, over the plan."""
    print("| case | the plan, of stock | found, of the plan's choice | a study |\n|---|---|---|---|")
    by_case = {}
    for result in studies:
        by_case.setdefault(result["case"], []).append(result)
    for name, rounds in by_case.items():
        rows = [{row["name"]: row for row in result["candidates"]} for result in rounds]
        stock = [by_name["c0"]["over_stock"] for by_name in rows if by_name["c0"]["over_stock"]]
        best = [by_name[result["best"]] for by_name, result in zip(rows, rounds, strict=True)]
        choices = [row["title"] if row["name"] == "c0" else f"{row['title']} {row['over_plan']:.2f}" for row in best]
        minutes = sum(result["spent"] for result in rounds) / len(rounds) / 60
        print(f"| {name} | {span(stock)} | {'; '.join(dict.fromkeys(choices))} | {minutes:.1f} min |")


def span(ratios):
    """The middle of ratios and how far they go."""
    if not ratios:
        return ""
    return (
        f"{geometric_mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        if len(ratios) > 1
        else f"{ratios[0]:.2f}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; all without")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=int, default=400, help="seconds of each study (default: %(default)s)")
    parser.add_argument("-o", "--output", type=Path, default=Path("studies.jsonl"))
    parser.add_argument("--table", type=Path, metavar="FILE", help="show what a file has, and run nothing")
    asked = parser.parse_args()
    if asked.table:
        table([json.loads(line) for line in asked.table.read_text().splitlines()])
        return
    for number in range(asked.rounds):
        for name in asked.cases or CASES:
            found = study(name, CASES[name], number, asked)
            with asked.output.open("a") as file:
                file.write(json.dumps(found) + "\n")
            print(f"round {number + 1}, {name}: {found['best']}, {found['spent']:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
