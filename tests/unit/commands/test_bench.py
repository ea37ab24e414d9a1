"""modak bench, as a user types it."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from modak_ansible.commands import main


@pytest.fixture
def modak(monkeypatch, capsys):
    """Runs a command line in this process; gives its exit code and what it printed."""

    def run(*arguments, cwd=None):
        monkeypatch.setattr(sys, "argv", ["modak", *map(str, arguments)])
        if cwd:
            monkeypatch.chdir(cwd)
        with pytest.raises(SystemExit) as ended:
            main.run()
        printed = capsys.readouterr()
        return SimpleNamespace(returncode=ended.value.code, stdout=printed.out, stderr=printed.err)

    return run


@pytest.mark.parametrize("name", ["run", "compare", "report"])
def test_every_command_has_help_with_an_example(modak, name):
    shown = modak("bench", name, "--help")
    assert shown.returncode == 0
    assert "Example: modak bench" in shown.stdout


def test_a_dry_run_lists_the_runs_and_runs_nothing(modak, tmp_path):
    shown = modak("bench", "run", "smoke", "--dry-run", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "4 runs of 2 variants" in shown.stdout
    assert "pytorch-2.13-cpu allocator=tcmalloc" in shown.stdout
    assert list(tmp_path.iterdir()) == []
    rows = json.loads(modak("bench", "run", "smoke", "--dry-run", "--json", "--rounds", 7, cwd=tmp_path).stdout)
    assert [row["rounds"] for row in rows] == [7, 7]
    assert all(row["problem"] == "" for row in rows)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "smok"], 2, "did you mean smoke?"),
        (["run", "smoke", "--group", "torch"], 2, "did you mean pytorch?"),
        (["run", "smoke", "--rounds", "0"], 2, "--rounds"),
        (["run", "smoke", "--input", "epoch=2", "--dry-run"], 3, "the blueprint has no input epoch"),
        (["run", "bad.yaml"], 3, "bad.yaml:1:1: unknown-key: the suite has no nmae (did you mean name?)"),
        (["compare", "none.jsonl"], 1, "none.jsonl cannot be read"),
        (["compare", "bad.jsonl"], 1, "bad.jsonl:1:1: not a record"),
    ],
)
def test_mistakes_end_in_one_message(modak, tmp_path, arguments, code, words):
    (tmp_path / "bad.yaml").write_text("nmae: x\n")
    (tmp_path / "bad.jsonl").write_text("{}\n")
    shown = modak("bench", *arguments, cwd=tmp_path)
    assert words in shown.stderr
    assert shown.stderr.startswith("error: ")
    assert shown.returncode == code


def test_an_empty_file_of_records_is_no_error(modak, tmp_path):
    (tmp_path / "empty.jsonl").touch()
    shown = modak("bench", "compare", tmp_path / "empty.jsonl")
    assert (shown.returncode, shown.stdout.strip()) == (0, "nothing was measured")


def test_a_file_that_is_named_twice_is_compared_once(modak, root, tmp_path):
    (path,) = root.glob("benchmarks/records/headline-cpu-amd-epyc-zen2.jsonl")
    (tmp_path / "again.jsonl").symlink_to(path)
    once, twice = (json.loads(modak("bench", "compare", "--json", *files).stdout) for files in (
        [path], [path, tmp_path / "again.jsonl"],
    ))  # fmt: skip
    assert once
    assert twice == once


def test_a_build_for_the_processor_is_planned_when_that_is_known(modak, tmp_path):
    shown = modak("bench", "run", "paper-cpu", "--group", "own-builds", "--dry-run", "--json", cwd=tmp_path)
    problems = {row["variant"]: row["problem"] for row in json.loads(shown.stdout)}
    assert problems["pytorch-2.13-cpu"] == ""
    assert problems["pytorch-2.13-cpu-opt"] == "planned for the processor that is found on the target"
