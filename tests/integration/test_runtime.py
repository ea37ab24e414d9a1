"""What acts in a training's process, in real frameworks: unmodified scripts, and scripts with the one line."""

from __future__ import annotations

import ast
import gzip
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from modak_ansible.catalogue import digits, idx
from modak_ansible.runtime import FILES

HERE = Path(__file__).parent / "runtime"
LINE = "    model, optimizer, train_loader, test_loader = modak_runtime.prepare(model, optimizer, train_loader, test_loader)\n"
TRAINED, TESTED = 320, 100


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few drawn digits where MNIST's own files would lie."""
    folder = tmp_path_factory.mktemp("data")
    for split, count in (("train", TRAINED), ("t10k", TESTED)):
        images, labels = digits.draw(count, digits.SEEDS[split])
        idx.write(folder / f"{split}-{idx.IMAGES}.gz", images)
        idx.write(folder / f"{split}-{idx.LABELS}.gz", labels)
    return folder


def place_of(folder: Path, data: Path) -> Path:
    """Where a script runs: the data beside it, as the examples of PyTorch have them."""
    (folder / "data").symlink_to(data)
    (folder / "code").mkdir()
    return folder / "code"


@pytest.fixture
def folder(data: Path, tmp_path: Path) -> Path:
    return place_of(tmp_path, data)


def with_line(text: str) -> str:
    """A script of PyTorch with the one line, before the schedule of its learning rate."""
    at = text.index("    scheduler = ")
    return (text[:at] + LINE + text[at:]).replace("import torch\n", "import modak_runtime\nimport torch\n", 1)


class Run:
    """A training that has ended."""

    def __init__(self, done: subprocess.CompletedProcess[str], applied: Path) -> None:
        self.output, self.code, self.errors = done.stdout, done.returncode, done.stderr
        self.report = json.loads(applied.read_text()) if applied.exists() else {}

    @property
    def losses(self) -> list[str]:
        return re.findall(r"Loss: (\S+)", self.output)

    def applied(self, name: str) -> str | None:
        return self.report["choices"][name]["applied"]

    def reason(self, name: str) -> str:
        return self.report["choices"][name]["reason"]


def train(python: str, folder: Path, text: str, *arguments: str, acts: bool = True, **environment: str) -> Run:
    (folder / "main.py").write_text(text)
    applied = folder / "applied.json"
    applied.unlink(missing_ok=True)
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("MODAK", "PYTHON"))}
    ours |= {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    ours["PYTHONPATH"] = f"{FILES}:{HERE}" if acts else str(HERE)
    if acts:
        ours["MODAK_APPLIED"] = str(applied)
    done = subprocess.run(
        [python, "main.py", *arguments], check=False, cwd=folder, env=ours | environment, capture_output=True, text=True,
        timeout=900,
    )  # fmt: skip
    return Run(done, applied)


def cases_of(name: str) -> list[str]:
    tree = ast.parse((HERE / name).read_text())
    return [each.name for each in tree.body if isinstance(each, ast.FunctionDef) and each.name.startswith("case_")]


def run_cases(python: str, name: str) -> dict[str, str]:
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("MODAK", "PYTHON"))}
    done = subprocess.run(
        [python, HERE / name], check=False, env=ours | {"PYTHONPATH": str(FILES), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results: dict[str, str] = json.loads(done.stdout)
    return results


@pytest.fixture(scope="module")
def pytorch_results(pytorch_python: str) -> dict[str, str]:
    return run_cases(pytorch_python, "pytorch_cases.py")


@pytest.fixture(scope="module")
def keras_results(tensorflow_python: str) -> dict[str, str]:
    return run_cases(tensorflow_python, "keras_cases.py")


@pytest.mark.parametrize("case", cases_of("pytorch_cases.py"))
def test_prepare(pytorch_results: dict[str, str], case: str) -> None:
    assert pytorch_results[case] == ""


@pytest.mark.parametrize("case", cases_of("keras_cases.py"))
def test_keras(keras_results: dict[str, str], case: str) -> None:
    assert keras_results[case] == ""


# --- whole scripts of PyTorch

PLAIN = (HERE / "plain_pytorch.py").read_text()


@pytest.fixture(scope="module")
def by_itself(pytorch_python: str, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """What the script does by itself, by its arguments; each is run once."""

    @cache
    def trained(*arguments: str) -> Run:
        folder = place_of(tmp_path_factory.mktemp("plain"), data)
        return train(pytorch_python, folder, PLAIN, *arguments, acts=False)

    return trained


def test_an_unmodified_script_trains_to_the_bit_as_ever_and_is_reported_on(
    pytorch_python: str, folder: Path, by_itself: Callable[..., Run]
) -> None:
    plain = by_itself()
    assert plain.code == 0, plain.errors
    assert len(plain.losses) == 10
    ours = train(
        pytorch_python, folder, PLAIN, MODAK_CHOICES="compiler=inductor input=memory memory_format=channels_last"
    )
    assert (ours.code, ours.output) == (0, plain.output)
    for name in ("compiler", "input", "memory_format"):
        assert (ours.applied(name), ours.reason(name)) == (None, "the script does not call prepare")
    steps = ours.report["steps"]
    assert (steps["count"], steps["batch_size"], steps["samples"]) == (10, 64, TRAINED)
    assert steps["parameters"] == 16 * 10 + 32 * 145 + 10 * (32 * 144 + 1)
    assert 0 < steps["median_seconds"] < steps["all_seconds"] < steps["total_seconds"]
    assert ours.report["finished"] is True
    assert ours.report["frameworks"]["torch"]["import_seconds"] > 0


def test_the_line_does_nothing_outside_of_a_plan(
    pytorch_python: str, folder: Path, by_itself: Callable[..., Run]
) -> None:
    plain = by_itself()
    lined = train(pytorch_python, folder, with_line(PLAIN))
    assert (lined.output, lined.report["choices"]) == (plain.output, {})


@pytest.mark.parametrize("workers", ["0", "1"])
def test_samples_in_memory_change_no_bit(
    pytorch_python: str, folder: Path, by_itself: Callable[..., Run], workers: str
) -> None:
    """With dropout, so that the script's own stream of random numbers shows."""
    plain = by_itself("--workers", workers, "--epochs", "3")
    ours = train(
        pytorch_python, folder, with_line(PLAIN), "--workers", workers, "--epochs", "3", MODAK_CHOICES="input=memory"
    )
    assert ours.applied("input") == "memory"
    assert ours.output == plain.output


def test_what_reassociates_agrees_in_the_first_steps(
    pytorch_python: str, folder: Path, by_itself: Callable[..., Run]
) -> None:
    plain = by_itself("--epochs", "1", "--dropout", "0")
    choices = "input=memory matmul=onednn memory_format=channels_last"
    ours = train(pytorch_python, folder, with_line(PLAIN), "--epochs", "1", "--dropout", "0", MODAK_CHOICES=choices)
    assert (ours.applied("memory_format"), ours.applied("input")) == ("channels_last", "memory")
    assert ours.applied("matmul") == "onednn" or "it computes in bf16" in ours.reason("matmul")
    assert [float(loss) for loss in ours.losses[:3]] == pytest.approx(
        [float(loss) for loss in plain.losses[:3]], rel=1e-4
    )


def test_a_smaller_number_format_is_another_result_of_the_same_kind(
    pytorch_python: str, folder: Path, by_itself: Callable[..., Run]
) -> None:
    plain = by_itself("--epochs", "1", "--dropout", "0")
    ours = train(
        pytorch_python, folder, with_line(PLAIN), "--epochs", "1", "--dropout", "0", MODAK_CHOICES="precision=bf16"
    )
    assert ours.applied("precision") == "bf16"
    assert ours.losses != plain.losses
    assert [float(loss) for loss in ours.losses[:3]] == pytest.approx(
        [float(loss) for loss in plain.losses[:3]], rel=0.05
    )


@pytest.mark.skipif(not shutil.which("g++"), reason="inductor needs a C++ compiler")
def test_a_compiled_model(pytorch_python: str, folder: Path, by_itself: Callable[..., Run]) -> None:
    plain = by_itself("--epochs", "1", "--dropout", "0")
    ours = train(
        pytorch_python, folder, with_line(PLAIN), "--epochs", "1", "--dropout", "0", MODAK_CHOICES="compiler=inductor"
    )
    assert ours.applied("compiler") == "inductor", ours.report
    assert [float(loss) for loss in ours.losses[:3]] == pytest.approx(
        [float(loss) for loss in plain.losses[:3]], rel=1e-4
    )


def test_a_compiler_that_fails_leaves_the_training_as_it_was_written(
    pytorch_python: str, folder: Path, by_itself: Callable[..., Run]
) -> None:
    plain = by_itself("--epochs", "1")
    for compiler, reason in (("false", "it failed"), ("/nowhere/g++", "it needs a C++ compiler")):
        ours = train(
            pytorch_python, folder, with_line(PLAIN), "--epochs", "1", MODAK_CHOICES="compiler=inductor", CXX=compiler
        )
        assert (ours.code, ours.losses) == (0, plain.losses)
        assert ours.applied("compiler") is None
        assert reason in ours.reason("compiler")


def test_a_trial_ends_after_its_steps_with_success(pytorch_python: str, folder: Path) -> None:
    kept = PLAIN.replace("    main()\n", "    try:\n        main()\n    finally:\n        print('checkpoint')\n")
    ours = train(pytorch_python, folder, kept, MODAK_TRIAL_STEPS="4")
    assert ours.code == 0, ours.errors
    assert (len(ours.losses), ours.report["steps"]["count"], ours.report["steps"]["trial"]) == (3, 4, True)
    assert "Accuracy" not in ours.output and "checkpoint" not in ours.output
    endless = "import time\ntime.sleep(600)\n"
    assert train(pytorch_python, folder, endless, MODAK_TRIAL_SECONDS="1").code == 0


@pytest.mark.skipif(
    "MODAK_PYTORCH_EXAMPLES" not in os.environ, reason="names a checkout of github.com/pytorch/examples"
)
def test_pytorchs_own_example(pytorch_python: str, folder: Path) -> None:
    """As it is, and with the line."""
    text = (Path(os.environ["MODAK_PYTORCH_EXAMPLES"]) / "mnist" / "main.py").read_text()
    arguments = ("--epochs", "2", "--log-interval", "1")
    plain = train(pytorch_python, folder, text, *arguments, acts=False)
    assert plain.code == 0, plain.errors
    assert len(plain.losses) == 10
    ours = train(pytorch_python, folder, text, *arguments, MODAK_CHOICES="input=memory")
    assert (ours.output, ours.reason("input")) == (plain.output, "the script does not call prepare")
    lined = train(pytorch_python, folder, with_line(text), *arguments, MODAK_CHOICES="input=memory")
    assert (lined.output, lined.applied("input")) == (plain.output, "memory")
    choices = "matmul=onednn memory_format=channels_last precision=bf16"
    changed = train(pytorch_python, folder, with_line(text), *arguments, MODAK_CHOICES=choices)
    assert (changed.applied("memory_format"), changed.applied("precision")) == ("channels_last", "bf16")
    assert float(changed.losses[0]) == pytest.approx(float(plain.losses[0]), rel=0.05)


# --- whole scripts of Keras


def test_an_unmodified_script_of_keras(tensorflow_python: str, folder: Path) -> None:
    text = (HERE / "plain_keras.py").read_text()
    plain = train(tensorflow_python, folder, text, acts=False)
    assert plain.code == 0, plain.errors
    assert len(plain.losses) == 2
    ours = train(tensorflow_python, folder, text)
    assert ours.losses == plain.losses
    assert (ours.report["steps"]["count"], ours.report["steps"]["batch_size"]) == (10, 64)
    changed = train(tensorflow_python, folder, text, MODAK_CHOICES="compiler=xla input=memory precision=bf16")
    assert [changed.applied(name) for name in ("compiler", "input", "precision")] == ["xla", "memory", "bf16"]
    assert changed.losses != plain.losses
    assert float(changed.losses[0]) == pytest.approx(float(plain.losses[0]), rel=0.05)
    tried = train(tensorflow_python, folder, text, MODAK_TRIAL_STEPS="3")
    assert (tried.code, tried.losses, tried.report["steps"]["count"]) == (0, [], 3)


def test_the_data_are_what_the_scripts_read(data: Path) -> None:
    with gzip.open(data / f"train-{idx.IMAGES}.gz") as file:
        assert len(file.read()) == 16 + TRAINED * 28 * 28
