"""The scripts' switches, what workload.yaml says of them, and that the paper's images can read them."""

from __future__ import annotations

import ast
from pathlib import Path

import arguments as command_line
import common
import pytest
import yaml

from modak_ansible.model.measured.workload import Workload, WorkloadScript

FOLDER = Path(__file__).parents[3] / "benchmarks/mnist_cnn"
WORKLOAD = Workload(**yaml.safe_load((FOLDER / "workload.yaml").read_text()))
MODERN = {"keras_any.py", "tensorflow_keras.py", "jax_functional.py"}
FOR_PYTHON_2 = sorted(path.name for path in FOLDER.glob("*.py") if path.name not in MODERN)


def switches_of(script: str) -> dict[str, tuple[str, ...]]:
    """What a script assigns to SWITCHES; its framework need not be here."""
    for node in ast.parse((FOLDER / script).read_text()).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["SWITCHES"]:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{script} has no SWITCHES")


def identity(script: WorkloadScript) -> str:
    return f"{script.framework}{script.versions}"


@pytest.mark.parametrize("script", WORKLOAD.scripts, ids=identity)
def test_every_value_that_the_workload_names_is_accepted(
    script: WorkloadScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    switches = switches_of(script.script)
    for name, values in script.switches.items():
        assert values[0] == switches[name][0], "the first is the default"
        for value in values:
            monkeypatch.setattr("sys.argv", ["script", "--data", "here", f"--{name.replace('_', '-')}", value])
            assert common.parse_arguments(script.framework, switches).switches[name] == value


def test_every_switch_of_a_script_is_in_the_workload() -> None:
    named: dict[str, dict[str, tuple[str, ...]]] = {}
    for script in WORKLOAD.scripts:
        for name, values in script.switches.items():
            known = named.setdefault(script.script, {}).get(name, ())
            named[script.script][name] = max(known, values, key=len)
    assert named == {script: switches for script in named if (switches := switches_of(script))}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--compiler", "glow"), "argument --compiler: invalid choice: 'glow'"),
        (("--precision", "bf16"), "unrecognized arguments: --precision bf16"),
        (("--input", "loader"), "unrecognized arguments: --input loader"),
    ],
)
def test_a_switch_that_a_script_has_not_got_is_refused_in_one_line(
    words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["script", "--data", "here", *words])
    with pytest.raises(SystemExit) as raised:
        common.parse_arguments("TensorFlow", switches_of("tensorflow_legacy.py"))
    assert raised.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}")
    assert error.count("\n") == 1


def test_what_only_the_running_framework_knows_is_refused_alike(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        command_line.refuse("memory_format", "channels_last", "PyTorch 1.4.0 has it from 1.5 on")
    assert raised.value.code == 2
    assert capsys.readouterr().err == "error: --memory-format channels_last: PyTorch 1.4.0 has it from 1.5 on\n"


@pytest.mark.parametrize("option", ["--images", "--limit"])
def test_fewer_images_by_either_name(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["script", "--data", "here", option, "7"])
    assert common.parse_arguments("PyTorch", {}).images == 7


def test_work_and_parameters_follow_from_the_layers() -> None:
    outputs = (26 * 26, 24 * 24, 1, 1)  # positions at which each layer is computed
    multiplications, parameters = [], 0
    for shape, positions in zip(common.WEIGHTS, outputs, strict=True):
        size = 1
        for length in shape:
            size *= length
        multiplications.append(size * positions)
        parameters += size + shape[-1]
    assert parameters == common.PARAMETERS == WORKLOAD.parameters
    forward, no_input_gradient = 2 * sum(multiplications), 2 * multiplications[0]
    assert WORKLOAD.gflop_per_image == pytest.approx((3 * forward - no_input_gradient) / 1e9, rel=1e-3)


@pytest.mark.parametrize("name", FOR_PYTHON_2)
def test_the_papers_images_can_read_it(name: str) -> None:
    """Their Python is 2.7, which this one cannot ask; these are what is easily written and not understood there."""
    content = (FOLDER / name).read_bytes()
    assert content.isascii()
    tree = ast.parse(content)
    newer = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.Nonlocal, ast.AsyncFunctionDef, ast.YieldFrom, ast.Match)
    for node in ast.walk(tree):
        assert not isinstance(node, newer), ast.dump(node)
        if isinstance(node, ast.FunctionDef):
            every = [*node.args.args, *node.args.posonlyargs, *node.args.kwonlyargs]
            assert not node.args.kwonlyargs
            assert node.returns is None
            assert not any(argument.annotation for argument in every)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
            assert node.args
        if isinstance(node, ast.Raise):
            assert node.cause is None
        if isinstance(node, ast.Assign):
            assert not any(isinstance(each, ast.Starred) for target in node.targets for each in ast.walk(target))
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            assert not any(isinstance(elt, ast.Starred) for elt in node.elts)
    futures = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    assert [[alias.name for alias in n.names] for n in futures] == [["absolute_import", "division", "print_function"]]


@pytest.mark.parametrize("name", FOR_PYTHON_2)
def test_no_comma_follows_unpacked_arguments(name: str) -> None:
    """Python 2.7 has no comma there, which ruff writes wherever such a call takes several lines."""
    lines = (FOLDER / name).read_text().splitlines()
    assert not [line for line in lines if line.strip().startswith("*") and line.strip().endswith(",")]
