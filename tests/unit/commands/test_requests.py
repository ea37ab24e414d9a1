"""modak validate, plan and deploy with a request."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from example_request import TRAINING, RequestFolder
from typer.testing import CliRunner

from modak_ansible.commands.main import application
from modak_ansible.errors import ModakError


@pytest.fixture
def training(tmp_path):
    return RequestFolder(tmp_path / "training", TRAINING)


def modak(*arguments):
    return CliRunner().invoke(application(), [str(argument) for argument in arguments], catch_exceptions=True)


def test_a_valid_request(training):
    done = modak("validate", training.file)
    assert done.exit_code == 0
    assert "request.json is valid" in done.stdout


def test_mistakes_and_warnings_in_json(training):
    training.set("job_options/node_count", "0").set("target", {"name": "cluster", "queue_type": "slurm"})
    done = modak("validate", training.file, "--json")
    assert done.exit_code == 3
    told = json.loads(done.stdout)
    assert [mistake["rule"] for mistake in told["mistakes"]] == ["out-of-range"]
    assert [warning["rule"] for warning in told["warnings"]] == ["older-spelling", "older-spelling"]
    assert told["mistakes"][0]["line"] > 1
    assert done.stderr.count("warning: ") == 2


def test_a_mistyped_input_is_said_to_be_of_the_target(training, tmp_path):
    inputs = tmp_path / "site.yaml"
    inputs.write_text("acount: hpc\n")
    done = modak("validate", training.set("target", {"job_scheduler_type": "slurm"}).file, "-i", inputs)
    assert done.exit_code == 3
    words = "site.yaml:1:1: unknown-input: the description of targets has no input acount"
    assert words in done.stdout


def test_a_plan_in_json_says_what_was_read_otherwise(training):
    plain = json.loads(modak("plan", training.file, "--json").stdout)
    assert "warnings" not in plain
    training.set("target", {"name": "cluster", "queue_type": "slurm"})
    warned = json.loads(modak("plan", training.file, "--json").stdout)
    (warning,) = warned.pop("warnings")
    assert "write job_scheduler_type" in warning["hint"]
    assert warned == plain


@pytest.mark.component
def test_output(training, tmp_path):
    done = modak("plan", training.file, "--output", tmp_path / "out")
    assert done.exit_code == 0, done.output
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"plan.json", "job.sh", "1-debian-bookworm.def", "2-pytorch-2.13-cpu.def"}
    assert done.stderr.count("wrote ") == 4
    plan = json.loads((tmp_path / "out" / "plan.json").read_text())
    assert plan["job"]["script"] == (tmp_path / "out" / "job.sh").read_text()
    assert subprocess.run(["bash", "-n", tmp_path / "out" / "job.sh"], check=False).returncode == 0


@pytest.mark.component
def test_job_scripts_please_shellcheck(training, tmp_path):
    training.set("application/pre-execution", "echo 1\necho 2").set("application/arguments", "data '$x' --y {dataset}")
    training.set("application/executable", "./run.sh").set("application/arguments", "data {dataset}")
    (training.path / "run.sh").write_text("#!/bin/sh\n")
    modak("plan", training.file, "--output", tmp_path / "out")
    checked = subprocess.run(
        [Path(sys.executable).parent / "shellcheck", tmp_path / "out" / "job.sh"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


def test_output_into_a_folder_with_other_files(training, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("1")
    done = modak("plan", training.file, "--output", tmp_path / "out")
    assert isinstance(done.exception, ModakError)
    assert "holds other files, which are left alone" in str(done.exception)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_an_image_alone_is_planned_and_not_deployed(training):
    training.file.write_text(json.dumps({"optimisation": TRAINING["job"]["optimisation"]}))
    assert modak("plan", training.file).exit_code == 0
    assert "is valid; it asks only for an image, and runs nothing" in modak("validate", training.file).stdout
    done = modak("deploy", training.file)
    assert "asks for an image, but for nothing to run in it" in str(done.exception)
    assert "modak catalogue build pytorch-2.13-cpu makes its image" in str(done.exception)


def test_schemas_are_printed_and_written(tmp_path):
    printed = modak("schema").stdout
    assert json.loads(printed)["title"] == "An optimisation request of modak"
    modak("schema", "plan", "--output", tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text())["title"] == "Plan"
