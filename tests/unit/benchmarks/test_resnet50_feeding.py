"""ResNet50's command line, batches and scores; and that workload.yaml says what the scripts have."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import feeding
import numpy as np
import pytest
import yaml
from dataset import DataError
from resnet50_files import FOLDER, samples, write_tar

from modak_ansible.model.measured.workload import Workload

WORKLOAD = Workload.model_validate(yaml.safe_load((FOLDER / "workload.yaml").read_text()))
SWITCHES = {"input": ("memory", "stream")}


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MODAK_DATASET", raising=False)

    def parse(*words: str):
        monkeypatch.setattr("sys.argv", ["pytorch.py", "--image-size", "64", "--classes", "10", *words])
        return feeding.parse_arguments("PyTorch", SWITCHES)

    return parse


def ends(function, *words: str) -> int:
    with pytest.raises(SystemExit) as raised:
        function(*words)
    return raised.value.code


@pytest.mark.parametrize("script", sorted({script.script for script in WORKLOAD.scripts}))
def test_switches_of_the_scripts(script: str) -> None:
    tree = ast.parse((FOLDER / script).read_text())
    [value] = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SWITCHES"
    ]
    stated = [each.switches for each in WORKLOAD.scripts if each.script == script]
    assert all(ast.literal_eval(value) == each for each in stated)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_files_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 350


def test_defaults(arguments) -> None:
    given = arguments()
    assert (given.source, given.epochs, given.batch_size, given.switches) == ("synthetic", 3, 8, {"input": "memory"})
    assert feeding.workload(given)[0] == "resnet50"


def test_impossible_arguments(arguments, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        (("--source", "folder"), "no data: --data or the environment's MODAK_DATASET must name a folder"),
        (("--data", str(tmp_path)), "no images: neither folders"),
        (("--data", str(tmp_path / "nowhere")), "nowhere: no such folder"),
        (("--image-size", "32"), "--image-size: 32 is out of range: at least 64"),
        (("--precision", "bf16"), "unrecognized arguments: --precision bf16"),
        (("--source", "paintings"), "invalid choice: 'paintings'"),
    ):
        assert ends(arguments, *words) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def test_memory_and_stream_give_the_same(arguments) -> None:
    words = ("--images", "5", "--test-images", "3", "--batch-size", "2")
    feeds = [feeding.Feed(arguments(*words, "--input", each)) for each in SWITCHES["input"]]
    for epoch in (0, 1):
        both = [list(feed.training_batches(epoch)) for feed in feeds]
        assert [len(labels) for _, labels in both[0]] == [2, 2, 1]
        for one, other in zip(*both, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    images, labels = next(iter(feeds[0].training_batches(0)))
    assert (images.shape, images.dtype, labels.dtype) == ((2, 64, 64, 3), np.float32, np.int64)
    assert [len(labels) for _, labels in feeds[1].test_batches()] == [2, 1]
    assert feeds[0].dataset["name"] == "synthetic"


def test_what_is_placed(arguments) -> None:
    shapes = []

    def place(images, labels):
        shapes.append(images.shape)
        return images.astype(np.float16), labels

    for way, expected in (("memory", [(5, 64, 64, 3), (1, 64, 64, 3)]), ("stream", [(4, 64, 64, 3), (1, 64, 64, 3)])):
        shapes.clear()
        feed = feeding.Feed(arguments("--images", "5", "--batch-size", "4", "--input", way), place)
        assert {images.dtype for images, _ in feed.training_batches(0)} == {np.dtype(np.float16)}
        assert shapes == expected


@pytest.mark.parametrize("way", SWITCHES["input"])
def test_bad_data_ends_the_script_with_one_line(
    arguments, tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    write_tar(tmp_path / "train.tar", samples([10]))
    write_tar(tmp_path / "val.tar", samples([0]))
    given = arguments("--data", str(tmp_path), "--input", way)
    assert ends(lambda: list(feeding.Feed(given).training_batches(0))) == 2
    expected = f"error: {tmp_path}/train.tar: record 1: label 10 is out of range; labels are 0 to 9\n"
    assert capsys.readouterr().err == expected


def test_a_stream_raises_what_its_making_raises() -> None:
    def made():
        yield 1
        raise ZeroDivisionError

    stream = feeding.ahead(made())
    assert next(stream) == 1
    with pytest.raises(ZeroDivisionError):
        next(stream)


def test_bad_data_in_a_stream_ends_the_script() -> None:
    def made():
        raise DataError("a.jpg: damaged")
        yield

    assert ends(lambda: list(feeding.ahead(made()))) == 2


def test_score_is_cross_entropy() -> None:
    score = feeding.Score()
    score.add(np.array([[0.0, 0.0], [1000.0, 0.0]], np.float32), np.array([1, 0]))
    score.add(np.array([[0.0, 0.0]], np.float32), np.array([1]))
    loss, share = score.result()
    assert loss == pytest.approx(2 * np.log(2) / 3)
    assert share == pytest.approx(1 / 3)


def test_no_framework_is_needed_to_read_the_shared_files() -> None:
    assert not {"torch", "tensorflow", "jax", "mxnet"} & {name for name in sys.modules if "." not in name}


@pytest.mark.component
def test_the_commands_for_a_gpu_are_clean() -> None:
    shellcheck = shutil.which("shellcheck", path=str(Path(sys.executable).parent))
    found = subprocess.run([shellcheck, str(FOLDER.parent / "gpu.sh")], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
