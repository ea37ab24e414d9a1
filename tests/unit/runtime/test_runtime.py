"""What acts in a training's process, as far as it needs no framework: starting, waiting, counting, reporting."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.runtime import FILES, STUB, runtime_files
from modak_ansible.target.core.files import sha256_of
from modak_ansible.target.metrics.curves import read_curves

sys.path.insert(0, str(FILES))

from modak_runtime.pytorch import loader_imported
from modak_runtime.report import Report, parsed
from modak_runtime.steps import Steps

sys.path.remove(str(FILES))


def python(*arguments: str, path: tuple[Path, ...] = (FILES,), interpreter: str = sys.executable, **environment: str):
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("MODAK", "PYTHON"))}
    ours |= {"PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [interpreter, *arguments], env=ours | environment, capture_output=True, text=True, check=False
    )


# --- the files


def test_a_plan_names_every_file_by_its_digest():
    files = {file.path: file for file in runtime_files()}
    assert {"sitecustomize.py", "modak_runtime/__init__.py", "modak_runtime/hooks.py"} <= set(files)
    assert all(sha256_of(FILES / path) == each.sha256 for path, each in files.items())


@pytest.mark.parametrize(
    "path",
    [
        *sorted(FILES.glob("modak_runtime/*.py")),
        *sorted(FILES.glob("modak_runtime/trainers/*.py")),
        FILES / "sitecustomize.py",
        STUB,
    ],
    ids=lambda path: path.name,
)
def test_they_are_python_3_8_and_its_standard_library(path):
    for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 8))):
        if isinstance(node, ast.Import):
            names = {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {str(node.module).split(".")[0]}
        else:
            continue
        assert names <= {*sys.stdlib_module_names, "modak_runtime", "modak_checkpoint", "imp"}  # imp: Python 2's


@pytest.mark.skipif(not shutil.which("python2.7") or python("-c", "", interpreter="python2.7").returncode != 0,
                    reason="there is no Python 2.7")  # fmt: skip
def test_python_2_is_left_alone(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("own = 1\n")
    code = "import sitecustomize, modak_runtime; print(sitecustomize.own, modak_runtime.prepare(1, 2))"
    done = python("-c", code, path=(FILES, tmp_path), interpreter="python2.7", MODAK_CHOICES="a=b", MODAK_APPLIED="x")
    assert (done.stdout, done.stderr) == ("(1, (1, 2))\n", "")


# --- at the start of a process


@pytest.mark.component
def test_the_sites_own_file_runs_too_and_its_errors_are_its_own(tmp_path):
    own = tmp_path / "sitecustomize.py"
    own.write_text("import sys\nprint('own', __name__)\n")
    applied = str(tmp_path / "applied.json")
    code = "import sitecustomize; print(sitecustomize.__file__)"
    for environment in ({}, {"MODAK_APPLIED": applied}):
        done = python("-c", code, path=(FILES, tmp_path), **environment)
        assert done.stdout == f"own sitecustomize\n{own}\n", done.stderr
    own.write_text("raise RuntimeError('the site is wrong')\n")
    done = python("-c", "print('goes on')", path=(FILES, tmp_path), MODAK_APPLIED=applied)
    assert done.stdout == "goes on\n" and "the site is wrong" in done.stderr


@pytest.mark.component
def test_without_a_plan_nothing_is_imported():
    code = "import sys; print(sorted(name for name in sys.modules if name.startswith('modak')))"
    assert python("-c", code).stdout == "[]\n"


@pytest.mark.component
def test_a_mistake_of_ours_stops_no_script(tmp_path):
    broken = tmp_path / "broken" / "modak_runtime"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("def prepare(*objects): return objects\n")
    (broken / "hooks.py").write_text("raise ValueError('ours')\n")
    shutil.copy(FILES / "sitecustomize.py", broken.parent)
    done = python("-c", "print('goes on')", path=(broken.parent,), MODAK_CHOICES="a=b")
    assert done.stdout == "goes on\n" and "ValueError('ours')" in done.stderr


# --- waiting for a framework


def framework(folder: Path, text: str) -> Path:
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(text)
    return folder


@pytest.mark.component
def test_what_is_imported_stays_as_it_is_even_where_we_fail_with_it(tmp_path):
    """A module named torch that has nothing of PyTorch's."""
    path = framework(tmp_path, "__version__ = '0'\nvalue = 5\n")
    code = (
        "import inspect, torch; print(torch.value, type(torch.__loader__).__name__, 'exec_module' in vars(torch.__loader__));"
        "print(inspect.getsource(torch).count('value')); import importlib; print(importlib.reload(torch).value)"
    )
    applied = tmp_path / "applied.json"
    done = python("-c", code, path=(FILES, path), MODAK_APPLIED=str(applied), MODAK_CHOICES="matmul=onednn")
    assert done.stdout == "5 SourceFileLoader False\n1\n5\n", done.stderr
    report = json.loads(applied.read_text())
    assert report["choices"]["matmul"]["applied"] is None
    assert report["choices"]["matmul"]["reason"] == report["mistakes"][0]
    assert "torch: AttributeError" in report["mistakes"][0]


@pytest.mark.component
def test_a_framework_that_cannot_be_imported_can_be_tried_again(tmp_path):
    code = (
        "import sys\ntry:\n    import torch\nexcept ImportError as error:\n    print(error)\n"
        f"sys.path.append({str(tmp_path / 'late')!r})\nimport torch\nprint(torch.value)\n"
    )
    (tmp_path / "late").mkdir()
    framework(tmp_path / "late", "value = 1\n")
    done = python("-c", code, MODAK_APPLIED=str(tmp_path / "a.json"))
    assert done.stdout == "No module named 'torch'\n1\n", done.stderr


# --- the report


def test_choices_are_read_as_a_plan_writes_them():
    assert parsed("compiler=inductor  memory_format=channels_last") == {
        "compiler": "inductor", "memory_format": "channels_last"
    }  # fmt: skip
    assert parsed("") == {} and parsed("nonsense a=b=c") == {"a": "b=c"}


def outcome(report, name="compiler"):
    return report.as_dict(True)["choices"][name]


def test_what_one_object_refuses_another_may_take():
    report = Report("", {"compiler": "inductor"})
    report.refused("compiler", "one")
    report.applied("compiler", "prepare")
    report.refused("compiler", "two")
    assert outcome(report) == {"planned": "inductor", "applied": "inductor", "how": "prepare", "reason": ""}
    report.withdrawn("compiler", "it failed")
    assert (outcome(report)["applied"], outcome(report)["reason"]) == (None, "it failed")
    report.refused("unplanned", "nobody asked")
    assert list(report.as_dict(True)["choices"]) == ["compiler"]


@pytest.mark.parametrize(
    ("frameworks", "prepared", "reason"),
    [
        ([], False, "imported no framework"),
        (["torch"], False, "does not call prepare"),
        (["torch"], True, "nothing that it applies to"),
        (["tensorflow", "keras"], False, "no Keras model"),
    ],
)
def test_why_nothing_was_done(frameworks, prepared, reason):
    report = Report("", {"compiler": "inductor"})
    report.prepared = prepared
    for name in frameworks:
        report.framework(name, "1", 0.5)
    assert outcome(report)["applied"] is None and reason in outcome(report)["reason"]


def test_a_helper_process_leaves_the_trainings_report_alone(tmp_path):
    path = tmp_path / "applied.json"
    training, helper = (Report(str(path), {}) for _ in range(2))
    training.prepared = True
    training.write(finished=True)
    written = path.read_text()
    helper.framework("torch", "1", 1.0)
    helper.write(finished=True)
    assert path.read_text() == written
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.component
def test_only_the_first_process_of_a_parallel_job_reports(tmp_path):
    applied = tmp_path / "applied.json"
    python("-c", "", MODAK_APPLIED=str(applied), SLURM_PROCID="1")
    assert not applied.exists()
    python("-c", "", MODAK_APPLIED=str(applied), SLURM_PROCID="0")
    assert json.loads(applied.read_text())["finished"] is True


@pytest.mark.component
def test_a_report_that_cannot_be_written_ends_no_training(tmp_path):
    done = python("-c", "print('goes on')", MODAK_APPLIED=str(tmp_path / "nowhere" / "applied.json"))
    assert (done.returncode, done.stdout) == (0, "goes on\n")
    assert "cannot be written" in done.stderr


# --- steps


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr("time.perf_counter", lambda: self.now)


def test_a_trial_looks_at_its_neighbours_from_its_begin(monkeypatch):
    """Its few steps are over before anything could be said of them alone."""
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    monkeypatch.setattr("modak_runtime.neighbours._foreign_seconds", lambda: now[0])  # one core is always busy
    trial, training = Steps(Report("", {}), limit=20), Steps(Report("", {}))
    now[0] += 5.0
    for steps in (trial, training):
        steps.step()
    now[0] += 0.5
    assert trial.as_dict()["foreign_cores"] == 1.0
    assert training.as_dict()["foreign_cores"] is None


def test_steps_are_timed_from_end_to_end(monkeypatch):
    clock = Clock(monkeypatch)
    steps = Steps(Report("", {}))
    clock.now += 5
    steps.loop_begins(batch_size=8, samples=64)
    for seconds in (3.0, 0.5, 0.25, 0.5, 40.0):
        clock.now += seconds
        steps.step()
    found = steps.as_dict()
    assert (found["count"], found["first_seconds"], found["median_seconds"]) == (5, 3.0, 0.5)
    assert (found["p10_seconds"], found["p90_seconds"], found["all_seconds"]) == (0.25, 40.0, 41.25)
    assert found["mean_seconds"] == pytest.approx(41.25 / 4)
    assert (found["batch_size"], found["samples"], found["trial"]) == (8, 64, False)
    assert found["to_first_step_seconds"] >= 8.0


def test_without_steps_nothing_is_known_of_them():
    found = Steps(Report("", {})).as_dict()
    assert found["count"] == 0
    assert all(found[name] is None for name in ("first_seconds", "median_seconds", "all_seconds", "batch_size"))


@given(st.integers(min_value=1, max_value=60_000), st.integers(min_value=1, max_value=4))
def test_memory_is_bounded_and_the_median_stays(count, at_once):
    with pytest.MonkeyPatch.context() as monkeypatch:
        clock = Clock(monkeypatch)
        steps = Steps(Report("", {}))
        for _ in range(count):
            clock.now += 0.01 * at_once
            steps.step(at_once)
        steps._thin_out()
        assert len(steps._intervals) <= 4096
        found = steps.as_dict()
        assert found["count"] == count * at_once
        if count > 1:
            assert found["median_seconds"] == pytest.approx(0.01, rel=1e-3)
            assert found["mean_seconds"] == pytest.approx(0.01, rel=1e-3)


class Lengthless:
    """As Keras's NumpySliceable: it has a __len__ that cannot be had."""

    def __len__(self):
        raise TypeError("object of type 'NumpySliceable' has no len()")


@pytest.mark.parametrize(("data", "samples"), [([1, 2, 3], 3), (Lengthless(), None), (iter([1]), None)])
def test_a_loop_begins_whatever_the_data_are(data, samples):
    class DataLoader:
        dataset, batch_size = data, 2

        def __iter__(self):
            return iter("ab")

    steps = Steps(Report("", {}))
    loader_imported(types.SimpleNamespace(DataLoader=DataLoader), None, steps)
    assert list(DataLoader()) == ["a", "b"]
    assert (steps.batch_size, steps.samples) == (2, samples)


@pytest.mark.component
def test_a_trial_that_has_no_steps_ends_in_time():
    done = python("-c", "import time; time.sleep(60)", MODAK_TRIAL_SECONDS="0.5", MODAK_APPLIED="/dev/null/x")
    assert done.returncode == 0


@pytest.mark.component
@pytest.mark.parametrize("wrong", ["", "x", "-3"])
def test_a_limit_that_is_no_number_is_none(wrong):
    done = python("-c", "print('whole')", MODAK_TRIAL_STEPS=wrong, MODAK_CHOICES="a=b")
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


@pytest.mark.component
def test_what_a_script_logs_is_kept_a_line_a_moment(tmp_path):
    """A torn last line of a run that was killed stays a line of its own; numbers that are none are words."""
    code = (
        "import modak_runtime as m\nm.log(step=1, loss=2.5)\nm.log(epoch=2, loss=float('nan'))\n"
        "import os\nif not os.fork(): m.log(step=9, loss=1)\n"
    )
    where = {"MODAK_APPLIED": str(tmp_path / "a.json"), "MODAK_METRICS": str(tmp_path / "metrics.json")}
    (tmp_path / "metrics.jsonl").write_text('{"st')
    done = python("-c", code, **where)
    assert (done.returncode, done.stderr) == (0, "")
    torn, *lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert all(line.pop("time") > 1e9 for line in found)
    assert (torn, found) == ('{"st', [{"step": 1, "loss": 2.5}, {"epoch": 2, "loss": "nan"}])
    python("-c", code, **where, RANK="3")
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 3
    done = python("-c", "import modak_runtime as m\nm.log(loss='much')", **where)
    assert "ValueError" in done.stderr
    assert python("-c", "import modak_runtime as m\nm.log(loss='much')").returncode == 0


@pytest.mark.component
def test_a_number_with_the_name_of_the_moment_takes_no_ones_place(tmp_path):
    code = "import modak_runtime as m\nm.log(step=1, time=12.5, Timestamp=3, accuracy=0.5)\n"
    where = {"MODAK_APPLIED": str(tmp_path / "a.json"), "MODAK_METRICS": str(tmp_path / "metrics.json")}
    done = python("-c", code, **where)
    assert (done.returncode, done.stderr) == (0, "")
    curves = read_curves(tmp_path, ["metrics.jsonl"])
    assert curves.last == {"logged.time": 12.5, "logged.Timestamp": 3, "accuracy": 0.5}
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["time"] > 1e9


class Batches:
    """Counts as PyTorch's own iterator does."""

    _num_yielded = 0


@pytest.mark.parametrize(
    ("read", "samples"),
    [
        ([4, 8, 12, 16], 4 * 32),
        ([5, 9, 13, 17], 4 * 32),  # one ahead
        ([1, 2, 3, 4], 32),
        ([1, 1, 2, 2, 3, 3], 32),  # two optimisers
        ([2, 4, 6, 9, 12, 15], 32),  # not always as many
    ],
)
def test_a_step_has_the_samples_of_all_batches_whose_gradients_it_adds_up(monkeypatch, read, samples):
    clock, batches = Clock(monkeypatch), Batches()

    class DataLoader:
        dataset, batch_size = range(1024), 32

        def __iter__(self):
            return batches

    steps = Steps(Report("", {}))
    loader_imported(types.SimpleNamespace(DataLoader=DataLoader), None, steps)
    DataLoader().__iter__()
    for batches._num_yielded in read:
        clock.now += 20.0
        steps.step()
    assert steps.as_dict()["batch_size"] == samples
