"""Training on this machine: no cluster, no root, no container."""

from __future__ import annotations

import json
from pathlib import Path

from cluster import ROOT, modak

SCRIPT = """\
import modak_runtime
import torch

data = torch.utils.data.TensorDataset(torch.rand(60, 8), torch.arange(60) % 3)
loader = torch.utils.data.DataLoader(data, batch_size=10, shuffle=True)
model = torch.nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = modak_runtime.prepare(model, optimizer, loader)
for _ in range(2):
    for values, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(values), labels).backward()
        optimizer.step()
"""
BLUEPRINT = """\
tosca_definitions_version: tosca_simple_yaml_1_3
imports: [ types/modak.yaml ]
metadata: { template_name: prepared }
topology_template:
  node_templates:
    machine: { type: modak.nodes.Local, properties: { container_runtime: none } }
    training:
      type: modak.nodes.Training
      properties:
        framework: pytorch
        script: train/train.py
        optimisation: { numerics: reassociation, compiler: none, input: memory, memory_format: channels_last }
      requirements: [ { host: machine } ]
"""


def test_the_local_blueprint(pytorch_python, tmp_path):
    """Its environment was made by the fixture; here it is used again, and by a project that asks for more."""
    inputs = ["--input", "mnist=[digits]", "--input", "epochs=1"]
    modak("undeploy", "mnist-pytorch-local")  # of a run of the tests that was ended in here, whose job is lost
    done = modak("deploy", "mnist-pytorch-local", *inputs, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["job"]["state"] == "COMPLETED"
    assert answer["metrics"]["accuracy"] > 0.8
    assert answer["stages"]["dataset"]["message"].startswith("drawn digits, not MNIST")
    again = json.loads(modak("deploy", "mnist-pytorch-local", *inputs, "--json").stdout)
    assert again["changed"] == 0
    assert modak("undeploy", "mnist-pytorch-local").returncode == 0


def test_planned_is_compared_with_applied_and_recorded_once(pytorch_python, tmp_path):
    """A model without convolutions has no format of images; its samples are kept."""
    project = tmp_path / "project"
    (project / ".modak").mkdir(parents=True)
    (project / "types").symlink_to(ROOT / "tosca" / "types")
    (project / "train").mkdir()
    (project / "train" / "train.py").write_text(SCRIPT)
    (project / "service.yaml").write_text(BLUEPRINT)
    done = modak("deploy", project, "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    outcomes = {each["name"]: each for each in answer["applied"]}
    assert outcomes["input"]["applied"] == "memory"
    assert outcomes["memory_format"]["applied"] is None
    warning = (
        "planned but not applied: memory_format channels_last: the model has no weights of two-dimensional convolutions"
    )
    assert warning in done.stderr
    shown = modak("deploy", project, cwd=project).stdout
    assert " ".join(warning.split()) in " ".join(shown.split())
    report = json.loads((Path(answer["results"]) / "applied.json").read_text())
    assert (report["steps"]["count"], report["steps"]["batch_size"], report["mistakes"]) == (12, 10, [])
    (record,) = map(json.loads, (project / ".modak" / "records" / "jobs.jsonl").read_text().splitlines())
    assert (record["outcome"], record["suite"], record["plan"]) == ("measured", "jobs", answer["digest"])
    assert record["settings"]["input"] == "memory" and "memory_format" not in record["settings"]
    assert record["steps"]["count"] == 12
    assert modak("undeploy", project, cwd=project).returncode == 0


def test_an_optimiser_without_fused_kernels_is_no_failure_and_is_compared_with_stock(pytorch_python, tmp_path):
    project = tmp_path / "project"
    (project / ".modak").mkdir(parents=True)
    (project / "types").symlink_to(ROOT / "tosca" / "types")
    (project / "train").mkdir()
    script = SCRIPT.replace("optim.SGD(model.parameters(), lr=0.1)", "optim.Adadelta(model.parameters())")
    (project / "train" / "train.py").write_text(script.replace("range(2)", "range(20)"))
    preferences = "compiler: none, input: memory, memory_format: channels_last"
    (project / "service.yaml").write_text(BLUEPRINT.replace(preferences, "compare_with_stock: 120"))
    done = modak("deploy", project, cwd=project)
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert "optimizer_step default (Adadelta: it has no fused kernel)" in shown
    assert "of stock" in shown  # though this model has no format of images either
    assert modak("undeploy", project, cwd=project).returncode == 0


def test_stock_trains_where_the_choice_is_slower(pytorch_python, tmp_path):
    """The model of plans is wrong about this script, which takes longer where the optimiser is another one."""
    project = tmp_path / "project"
    (project / ".modak").mkdir(parents=True)
    (project / "types").symlink_to(ROOT / "tosca" / "types")
    (project / "train").mkdir()
    takes = (  # of a processor, all the time: while it slept, others beside the tests would seem busier than beside stock
        "        until = time.perf_counter() + (0.1 if 'optimizer_step' in os.environ.get('MODAK_CHOICES', '') else 0.01)\n"
        "        while time.perf_counter() < until:\n            pass\n        optimizer.zero_grad()\n"
    )
    script = SCRIPT.replace("        optimizer.zero_grad()\n", takes).replace("range(2)", "range(9)")
    (project / "train" / "train.py").write_text(f"import os\nimport time\n{script}")
    preferences = "compiler: none, input: memory, memory_format: channels_last"
    (project / "service.yaml").write_text(
        BLUEPRINT.replace(preferences, "compare_with_stock: 200")
    )  # five turns, one cold
    modak("undeploy", project, cwd=project)  # of a run of the tests that failed in here
    done = modak("deploy", project, "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    tuning = json.loads((Path(answer["results"]) / "tuning.json").read_text())
    assert tuning["best"] != "c0"
    (record,) = map(json.loads, (project / ".modak" / "records" / "jobs.jsonl").read_text().splitlines())
    assert "optimizer_step" not in record["settings"]  # it tells of what trained
    assert record["steps"]["median_seconds"] < 0.09
    shown = " ".join(modak("deploy", project, cwd=project).stdout.split())
    assert "of stock, measured here, so stock trained (" in shown
    assert modak("undeploy", project, cwd=project).returncode == 0


def test_any_python_program_and_whatever_it_measures(tmp_path):
    """No framework, no prediction; the threads of whatever it computes with are set, and its numbers are told."""
    project = tmp_path / "project"
    (project / ".modak").mkdir(parents=True)
    (project / "types").symlink_to(ROOT / "tosca" / "types")
    (project / "train").mkdir()
    (project / "train" / "train.py").write_text(
        "import json, os\n"
        "threads = int(os.environ['OPENBLAS_NUM_THREADS'])\n"
        "json.dump({'r2': 0.8312, 'blas': {'threads': threads}}, open(os.environ['MODAK_METRICS'], 'w'))\n"
    )
    cores = "container_runtime: none }, capabilities: { processor: { properties: { cores: 2 } } }"
    text = BLUEPRINT.replace("framework: pytorch", "framework: python").replace("prepared", "plain")
    text = text.replace("container_runtime: none }", cores)
    service = project / "service.yaml"
    service.write_text("".join(line for line in text.splitlines(keepends=True) if "optimisation:" not in line))
    done = modak("deploy", str(service), cwd=project)
    assert done.returncode == 0, done.stderr
    assert "  training  r2 0.8312, blas.threads 2" in done.stdout
    (row,) = json.loads(modak("status", "--json", cwd=project).stdout)
    assert row["numbers"]["r2"] == 0.8312
    assert row["predicted_seconds"] is None
    assert modak("undeploy", str(service), cwd=project).returncode == 0
