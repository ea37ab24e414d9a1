"""Checkpoints: files that are whole or absent whatever is killed or damaged, and loops that go on where they were."""

from __future__ import annotations

import ast
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.runtime import FILES, runtime_files

sys.path.insert(0, str(FILES))

import modak_checkpoint
from modak_checkpoint import beginning, streams
from modak_checkpoint.forms import Arrays
from modak_checkpoint.progress import GOES_ON, Progress
from modak_checkpoint.store import Store
from modak_checkpoint.together import Alone

sys.path.remove(str(FILES))


@pytest.fixture(autouse=True)
def _own_signal_handler():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def written(content: bytes):
    return lambda path: Path(path).write_bytes(content)


def contents(folder: Path) -> list[bytes]:
    return [Path(path).read_bytes() for path in Store(str(folder)).newest()]


# --- the files


@pytest.mark.parametrize("path", sorted(FILES.glob("modak_checkpoint/*.py")), ids=lambda path: path.name)
def test_they_are_python_3_8_and_its_standard_library(path):
    """What NumPy, PyTorch and Keras are to them, the training has imported."""
    allowed = {*sys.stdlib_module_names, "modak_checkpoint", "modak_runtime", "keras"}
    for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 8))):
        if isinstance(node, ast.Import):
            assert {name.name.split(".")[0] for name in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom):
            assert str(node.module).split(".")[0] in allowed
    assert f"modak_checkpoint/{path.name}" in {file.path for file in runtime_files()}


def test_the_last_two_are_kept(tmp_path):
    store = Store(str(tmp_path / "checkpoints"))
    for number in range(5):
        store.save(written(b"%d" % number))
    assert contents(tmp_path / "checkpoints") == [b"4", b"3"]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2


def test_what_cannot_be_written_leaves_the_others_as_they_were(tmp_path):
    store = Store(str(tmp_path))
    store.save(written(b"good"))

    def fails(path):
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        store.save(fails)
    assert contents(tmp_path) == [b"good"]
    assert len(list(tmp_path.iterdir())) == 1


KILLED = """
import os, sys
sys.path.insert(0, {files!r})
from modak_checkpoint import store
calls = [int(sys.argv[2])]
def dying(act):
    def acts(*arguments, **options):
        if calls[0] == 0:
            os.kill(os.getpid(), 9)
        calls[0] -= 1
        return act(*arguments, **options)
    return acts
for name in ("fsync", "replace", "unlink", "open", "listdir", "close"):
    setattr(os, name, dying(getattr(os, name)))
store.open = dying(open)
def write(path):
    with store.open(path, "wb") as file:
        for part in (b"wh", b"ole ", sys.argv[3].encode()):
            dying(file.write)(part)
            dying(file.flush)()
checkpoints = store.Store(sys.argv[1])
for _ in range(3):
    checkpoints.save(write)
print("done")
"""


@pytest.mark.component
def test_killed_between_any_two_steps_of_a_save(tmp_path):
    """Whatever is on the disk then, the newest that is taken is whole, and no save that had ended is lost."""
    died = 0
    for calls in range(200):
        folder = tmp_path / str(calls)
        Store(str(folder)).save(written(b"old"))
        done = subprocess.run(
            [sys.executable, "-S", "-c", KILLED.format(files=str(FILES)), folder, str(calls), "new"],
            capture_output=True, check=False,
        )  # fmt: skip
        found = contents(folder)
        assert found, calls
        assert set(found) <= {b"old", b"whole new"}
        assert not [path for path in folder.iterdir() if path.name.endswith(".part")]
        if done.returncode == 0:
            assert found == [b"whole new"] * 2
            break
        assert done.returncode == -9
        died += 1
    assert died > 30
    assert done.returncode == 0


@given(data=st.data(), content=st.binary(min_size=1, max_size=200))
def test_a_damaged_one_is_never_taken_for_whole(tmp_path_factory, data, content):
    folder = tmp_path_factory.mktemp("checkpoints")
    store = Store(str(folder))
    store.save(written(b"older"))
    newest = Path(store.save(written(content)))
    damaged = bytearray(content)
    if data.draw(st.booleans(), "cut off"):
        del damaged[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        damaged[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    newest.write_bytes(bytes(damaged))
    assert contents(folder) == [b"older"]
    assert not newest.exists()


def test_one_that_cannot_be_read_is_told_of(tmp_path, capsys):
    store = Store(str(tmp_path))
    store.save(written(b"older"))
    newest = Path(store.save(written(b"newer")))
    newest.write_bytes(b"newes")
    assert contents(tmp_path) == [b"older"]
    assert "is damaged; an older one is used" in capsys.readouterr().err


# --- their form

_PLAIN = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=5)
_STATES = st.recursive(
    _PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers() | st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(state=_STATES)
def test_a_state_comes_back_as_it_was(tmp_path_factory, state):
    path = tmp_path_factory.mktemp("form") / "state"
    form = Arrays(np)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    form.save({"state": state, "array": array, "number": np.float64(0.1)}, path)
    loaded = form.load(path)
    assert (loaded["state"], loaded["number"]) == (state, 0.1)
    assert loaded["array"].dtype == np.float32
    assert np.array_equal(loaded["array"], array)


def test_what_would_need_code_to_be_loaded_is_not_saved(tmp_path):
    with pytest.raises(TypeError, match="a state holds PosixPath"):
        Arrays(np).save({"state": Path()}, tmp_path / "state")
    np.savez(tmp_path / "hostile", plain=np.array([print], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        Arrays(np).load(tmp_path / "hostile.npz")


# --- loops


class Learner:
    """What learns: its state is the history of what it was given, and a number that it drew with each."""

    def __init__(self):
        self.history = []

    def learn(self, batch):
        self.history.append([batch, random.random(), float(np.random.rand())])

    def state_dict(self):
        return {"history": self.history}

    def load_state_dict(self, state):
        self.history = list(state["history"])


def train(folder: Path | None, stop_after: int | None = None, epochs: int = 3, every: str = "1000") -> list:
    """A whole training, or a part of it; the order of its batches is drawn."""
    random.seed(1)
    np.random.seed(1)
    learner = Learner()
    environment = {"MODAK_CHECKPOINT_EVERY": every}
    if folder is not None:
        environment |= {"MODAK_CHECKPOINTS": str(folder / "checkpoints"), "MODAK_STOP": str(folder / "stop")}
    progress = modak_checkpoint.Unsaved() if folder is None else beginning.begin(environment, {"learner": learner})
    done = 0
    for epoch in progress.epochs(epochs):
        order = random.sample(range(10), 10)
        for number in progress.batches(order):
            if folder is not None:
                progress._ending._next_look = 0.0  # every step looks
            learner.learn([epoch, number])
            done += 1
            if done == stop_after and folder is not None:
                (folder / "stop").touch()
        random.random()  # as an evaluation may
    return learner.history


@pytest.mark.parametrize("stops", [(1,), (10,), (4, 1, 1, 17), (29,), (9, 1, 1, 9, 1)])
def test_an_interrupted_training_is_the_same_as_one_at_one_go(tmp_path, stops):
    whole = train(None)
    assert len(whole) == 30
    for after in stops:
        with pytest.raises(SystemExit) as ended:
            train(tmp_path, after)
        assert ended.value.code == GOES_ON
        (tmp_path / "stop").unlink()
    assert train(tmp_path) == whole


class Optimizer(Learner):
    """Adds up what it is given, and steps with every third batch, as one of PyTorch tells of it."""

    def __init__(self):
        super().__init__()
        self.hooks, self.sum = [], []

    def register_step_post_hook(self, hook):
        self.hooks.append(hook)

    def learn(self, batch):
        self.sum.append(batch)
        if len(self.sum) == 3:
            super().learn(self.sum)
            self.sum = []
            for hook in self.hooks:
                hook(self, (), {})


@pytest.mark.parametrize("after", [1, 2, 3, 4, 8])
def test_what_a_script_adds_up_is_not_lost(tmp_path, monkeypatch, after):
    monkeypatch.setattr(sys.modules[__name__], "Learner", Optimizer)
    whole = train(None)
    with pytest.raises(SystemExit):
        train(tmp_path, after)
    (tmp_path / "stop").unlink()
    assert train(tmp_path) == whole


@pytest.mark.component
def test_one_that_is_killed_goes_on_from_what_was_saved_last(tmp_path):
    child = os.fork()
    if child == 0:
        learn = Learner.learn

        def dies(self, batch):
            learn(self, batch)
            if len(self.history) == 17:
                os.kill(os.getpid(), signal.SIGKILL)

        Learner.learn = dies
        train(tmp_path, every="0")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert train(tmp_path, every="0") == train(None)


def test_a_term_ends_it_after_the_step_with_the_signals_own_code(tmp_path):
    class Told(Learner):
        def learn(self, batch):
            super().learn(batch)
            if len(self.history) == 5:
                os.kill(os.getpid(), signal.SIGTERM)

    learner = Told()
    progress = beginning.begin({"MODAK_CHECKPOINTS": str(tmp_path)}, {"learner": learner})
    with pytest.raises(SystemExit) as ended:
        for _ in progress.epochs(1):
            for number in progress.batches(range(10)):
                learner.learn(number)
    assert (ended.value.code, len(learner.history)) == (143, 5)
    again = Learner()
    assert beginning.begin({"MODAK_CHECKPOINTS": str(tmp_path)}, {"learner": again}).step == 5
    assert again.history == learner.history


class Seldom(Alone):
    """Agrees with others at every third step, as ranks do about once a second."""

    calls = 0

    def agreed(self, asked, due):
        self.calls += 1
        return (asked, due) if self.calls % 3 == 0 else (0, False)


def test_a_file_that_asks_for_the_end_waits_until_ranks_agree(tmp_path):
    (tmp_path / "stop").touch()
    store, parts = Store(str(tmp_path / "checkpoints")), {"learner": Learner()}
    progress = Progress(store, Arrays(np), parts, 1000.0, str(tmp_path / "stop"), Seldom())
    with pytest.raises(SystemExit) as ended:
        list(progress.batches(range(9)))
    assert (ended.value.code, progress.step) == (GOES_ON, 2)


def test_after_the_last_epoch_a_term_is_the_scripts_own_again(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    train(tmp_path)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_loop_that_is_left_early_lets_a_term_end_the_script(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    progress = beginning.begin({"MODAK_CHECKPOINTS": str(tmp_path)}, {"learner": Learner()})
    for epoch in progress.epochs(9):
        assert signal.getsignal(signal.SIGTERM) is not before
        if epoch == 1:
            break
    assert signal.getsignal(signal.SIGTERM) is before
    for epoch in progress.epochs(9):  # as of a second phase
        assert (epoch, signal.getsignal(signal.SIGTERM) is before) == (1, False)
        break
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_state_that_cannot_be_saved_ends_no_training_before_it_must(tmp_path, capsys):
    class Odd(Learner):
        def state_dict(self):
            return {"history": object()}

    progress = beginning.begin({"MODAK_CHECKPOINTS": str(tmp_path), "MODAK_CHECKPOINT_EVERY": "0.0"}, {"odd": Odd()})
    progress._next_save = 0.0
    assert len([number for _ in progress.epochs(1) for number in progress.batches(range(3))]) == 3
    assert "no checkpoint was written: TypeError: a state holds object" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    progress = beginning.begin({"MODAK_CHECKPOINTS": str(tmp_path), "MODAK_STOP": str(tmp_path)}, {"odd": Odd()})
    with pytest.raises(SystemExit, match="its state could not be saved"):
        list(progress.batches(range(3)))


def test_what_has_no_state_is_refused():
    with pytest.raises(TypeError, match="rate is of type float, which is not a Keras model and lacks state_dict"):
        beginning.begin({}, {"rate": 0.1})


def test_batches_is_for_one_loop_of_an_epoch(tmp_path):
    progress = beginning.begin({"MODAK_CHECKPOINTS": str(tmp_path)}, {"learner": Learner()})
    list(progress.batches([1, 2]))
    with pytest.raises(RuntimeError, match="for the loop that trains"):
        list(progress.batches([1, 2]))


def test_one_process_of_several_keeps_no_state(tmp_path, capsys):
    assert beginning.begin({"MODAK_CHECKPOINTS": str(tmp_path), "WORLD_SIZE": "4"}, {"learner": Learner()}) is None
    assert "this is one of 4 processes" in capsys.readouterr().err


def test_outside_of_a_job_loops_run_as_if_they_stood_alone(monkeypatch):
    monkeypatch.delenv("MODAK_CHECKPOINTS", raising=False)
    progress = modak_checkpoint.resume(learner=Learner())
    data = [1, 2]
    assert (list(progress.epochs(2)), progress.batches(data) is data, progress.step) == ([0, 1], True, 0)


def test_the_streams_go_on():
    random.seed(3)
    np.random.seed(3)
    np.random.randn()  # leaves half of a pair
    kept = streams.states()
    drawn = [random.random(), random.gauss(0, 1), float(np.random.randn()), float(np.random.rand())]
    streams.restore(kept)
    assert [random.random(), random.gauss(0, 1), float(np.random.randn()), float(np.random.rand())] == drawn


def test_the_streams_go_on_where_there_are_fewer_gpus(monkeypatch):
    there = [None]

    def set_all(states):
        for number, state in enumerate(states):
            there[number] = state  # as PyTorch has a list of its generators

    cuda = SimpleNamespace(is_available=lambda: True, device_count=lambda: len(there), set_rng_state_all=set_all)
    torch = SimpleNamespace(tensor=lambda state, dtype: state, uint8=None, set_rng_state=lambda _: None, cuda=cuda)
    monkeypatch.setitem(sys.modules, "torch", torch)
    kept = {**streams_of_python(), "torch": [1], "cuda": [[2], [3]]}
    streams.restore(kept)
    assert there == [[2]]


def streams_of_python():
    version, inner, following = random.getstate()
    return {"python": [version, list(inner), following]}
