"""modak model, as a user types it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from modak_ansible.commands import main
from modak_ansible.measuring.refitting import files_of_records
from modak_ansible.performance.model import SHIPPED


@pytest.fixture
def modak(monkeypatch, capsys, tmp_path):
    """Runs a command line in this process, in a project of its own; gives its exit code and what it printed."""
    (tmp_path / ".modak").mkdir()

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["modak", *map(str, arguments)])
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as ended:
            main.run()
        printed = capsys.readouterr()
        return SimpleNamespace(returncode=ended.value.code, stdout=printed.out, stderr=printed.err)

    return run


@pytest.fixture(scope="module")
def some():
    """The runs of two groups of the shipped records, and the peak."""
    lines = [line for file in files_of_records(None) for line in file.read_text().splitlines()]
    wanted = ("pytorch", "peak", "resnet50")
    return "".join(f"{line}\n" for line in lines if json.loads(line)["group"] in wanted)


@pytest.fixture
def few(tmp_path, some):
    """A file with these."""
    path = tmp_path / "few.jsonl"
    path.write_text(some)
    return path


@pytest.mark.parametrize("name", ["fit", "show", "explain", "validate"])
def test_every_command_has_help_with_an_example(modak, name):
    shown = modak("model", name, "--help")
    assert shown.returncode == 0
    assert "Example: modak model" in shown.stdout


def test_a_projects_model_is_fitted_and_used(modak, few, tmp_path):
    shown = modak("model", "fit", "--records", few)
    assert shown.returncode == 0, shown.stderr
    assert "measured trainings (mnist_cnn, resnet50) of 1 file" in shown.stdout
    assert (tmp_path / ".modak" / "model.json").is_file()
    rows = json.loads(modak("model", "show", "--json").stdout)
    assert any("allocator=tcmalloc" in row["name"] and row["records"] > 0 for row in rows)
    assert not any("tensorflow compiler=xla" in row["name"] for row in rows)


def test_the_shipped_model_is_shown(modak):
    shown = modak("model", "show", "--model", SHIPPED)
    assert "pytorch precision=bf16 with 2.13 in mnist_cnn" in shown.stdout
    assert "Factor on seconds (90 %)" in shown.stdout
    assert "entry pytorch-2.13-cpu" in modak("model", "show", "--model", SHIPPED, "--part", "start").stdout


def test_a_question_is_explained(modak, tmp_path):
    question = {
        "work": {"workload": "mnist_cnn", "samples": 60000, "epochs": 12},
        "framework": "pytorch",
        "entry": "pytorch-2.13-cpu",
        "version": "2.13.0",
        "processor": "AMD EPYC",
        "threads": 1,
        "settings": {"precision": "bf16", "input": "memory"},
    }
    (tmp_path / "question.json").write_text(json.dumps(question))
    shown = modak("model", "explain", "question.json")
    assert shown.returncode == 0, shown.stderr
    for words in ("predicted: ", "at the peak of", "precision bf16, ", "what every run loses to the peak"):
        assert words in shown.stdout
    told = json.loads(modak("model", "explain", "question.json", "--json").stdout)
    product = told["ideal"]
    for contribution in told["contributions"]:
        product *= contribution["factor"]["middle"] if contribution["part"] == "training" else 1.0
    assert product == pytest.approx(told["step"])


def test_a_blueprint_is_explained(modak):
    shown = modak("model", "explain", "mnist-pytorch-slurm")
    assert shown.returncode == 0, shown.stderr
    assert "pytorch, pytorch-2.13-cpu" in shown.stdout
    assert "doubt: the peak of the target is not known" in shown.stdout


def test_a_request_is_explained_as_a_blueprint_is(modak):
    """It is JSON as a question is, and says what is asked for."""
    shown = modak("model", "explain", Path(__file__).resolve().parents[3] / "docs" / "example" / "request.json")
    assert shown.returncode == 0, shown.stderr
    assert "predicted: " in shown.stdout


def test_what_was_left_out_is_predicted(modak, few, tmp_path):
    shown = modak("model", "validate", "--records", few, "--plots", tmp_path / "figures")
    assert shown.returncode == 0, shown.stderr
    assert "configurations left out: mean error" in shown.stdout
    assert "today-cpu pytorch (mnist_cnn)" in shown.stdout
    first, second = (line for line in shown.stdout.splitlines() if line.startswith("regret "))
    assert first.startswith("regret with the table's workload left out: ")
    assert second.startswith("regret in-sample")
    assert " over 3 %" in first
    assert len(list((tmp_path / "figures").iterdir())) == 8
    told = json.loads(modak("model", "validate", "--records", few, "--json").stdout)
    assert set(told["mean_error"]) == {"configurations", "workloads", "timed", "machines"}
    assert told["regrets"]
    assert set(told["regret"]) == {"workload_left_out", "in_sample"}
    assert modak("model", "validate", "--records", few, "--plots", few).returncode == 2  # before minutes are spent


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fit", "--records", "few.jsonl", "--shipped"], 2, "--records and --shipped both say which records"),
        (["fit", "--records", "none.jsonl"], 1, "none.jsonl cannot be read"),
        (["fit", "--records", "bad.jsonl"], 1, "bad.jsonl:2:1: not a record"),
        (["fit", "--records", "empty.jsonl"], 1, "there is nothing to fit"),
        (["show", "--model", "old.json"], 1, "modak model fit makes a new one"),
        (["show", "--model", "bad.jsonl"], 1, "modak model fit makes a new one"),
        (["show", "--part", "steps"], 2, "did you mean step?"),
        (["explain", "wrong.json"], 1, "wrong.json is not a valid question: framework: Field required"),
        (["explain", "mnist-pytorch-slurn"], 2, "did you mean mnist-pytorch-slurm?"),
        (["validate", "--records", "empty.jsonl"], 1, "there is nothing to fit"),
    ],
)
def test_mistakes_end_in_one_message(modak, tmp_path, few, arguments, code, words):
    first = few.read_text().splitlines()[0]
    (tmp_path / "bad.jsonl").write_text(f"{first}\n{first[:100]}\n")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "old.json").write_text('{"schema_version": "modak.model/0"}')
    (tmp_path / "wrong.json").write_text("{}")
    shown = modak("model", *arguments)
    assert words in shown.stderr
    assert shown.stderr.startswith("error: ")
    assert shown.returncode == code
    assert not (tmp_path / ".modak" / "model.json").exists()


def test_an_interrupted_fit_leaves_nothing(modak, few, tmp_path, monkeypatch):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("modak_ansible.measuring.refitting.fit", interrupted)
    shown = modak("model", "fit", "--records", few)
    assert shown.returncode == 130
    assert list((tmp_path / ".modak").iterdir()) == []
