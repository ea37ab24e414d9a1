"""Processes that train together: who they are, what each gets, and what each may write; nothing of it needs PyTorch."""

from __future__ import annotations

import json
import os
import random
import secrets
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.runtime import FILES

sys.path.insert(0, str(FILES))

import modak_runtime
from modak_runtime import pytorch, ranks
from modak_runtime.parallel import group
from modak_runtime.parallel.batch_parts import part_of
from modak_runtime.parallel.processes import Ranks
from modak_runtime.parallel.stages.call import Pipe
from modak_runtime.report import Report

TWO = {"MODAK_STRATEGY": "ddp", "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "2001"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [(TWO, True), ({}, False), (TWO | {"WORLD_SIZE": "1"}, False), (TWO | {"MODAK_STRATEGY": ""}, False)],
)
def test_one_process_alone_or_one_that_is_parallel_by_itself_is_left_alone(environment, expected):
    assert ranks.is_parallel(environment) is expected


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"RANK": None}, "'RANK' is not set"),
        ({"MASTER_ADDR": None}, "'MASTER_ADDR' is not set"),
        ({"MASTER_PORT": "a port"}, "must be numbers"),
    ],
)
def test_what_a_rank_is_not_told_ends_it(change, words):
    environment = {name: value for name, value in (TWO | change).items() if value is not None}
    with pytest.raises(SystemExit, match=words):
        ranks.Rank(environment)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            RuntimeError("[/src/gloo/pair.cc:537] Read error [127.0.0.1]:47490: reset\nmore"),
            "Read error [127.0.0.1]:47490: reset",
        ),
        (ValueError("\n  [1, 2] has another size"), "[1, 2] has another size"),
        (OSError(), "OSError"),
    ],
)
def test_an_error_is_told_in_short(error, words):
    assert group.first_line(error) == words


@pytest.mark.parametrize(("text", "seconds"), [("40", 40), ("", 300), ("soon", 300), ("0", 1)])
def test_the_time_of_a_rendezvous(text, seconds):
    assert ranks.Rank(TWO | {"MODAK_RENDEZVOUS_TIMEOUT": text}).timeout == seconds


@pytest.mark.parametrize(
    ("name", "way"),
    [("ddp", ("ddp", 1)), ("tensor", ("tensor", 12)), ("tensor_4", ("tensor", 4)), ("fsdp_2", ("fsdp", 2))],
)
def test_a_name_tells_how_many_ranks_have_one_copy(name, way):
    assert ranks.Rank(TWO | {"WORLD_SIZE": "12"}).way(name) == way


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tensor_5", "model copies of 5 ranks each do not add up to 12 ranks"),
        ("guess", "does not know the strategy guess"),
    ],
)
def test_a_name_that_is_none_of_these_ranks_ends_them(name, words):
    with pytest.raises(SystemExit, match=words):
        ranks.Rank(TWO | {"WORLD_SIZE": "12"}).way(name)


@given(st.lists(st.integers(), min_size=1, max_size=40), st.integers(1, 9))
def test_every_sample_of_a_batch_counts_once(samples, world):
    parts = [part_of(samples, number, world) for number in range(world)]
    assert all(mine for mine, _ in parts)  # none has nothing to compute with
    assert sorted(each for mine, count in parts for each in mine[:count]) == sorted(samples)
    counts = [count for _, count in parts]
    assert max(counts) - min(counts) <= 1


def test_what_a_script_does_not_seed_begins_alike(monkeypatch):
    for name, value in TWO.items():
        monkeypatch.setenv(name, value)
    drawn = []
    for number in "01":
        monkeypatch.setenv("RANK", number)
        ranks.begin()
        torch = SimpleNamespace(manual_seed=drawn.append, autograd=SimpleNamespace(grad=print), save=print)
        torch.serialization = SimpleNamespace(save=print)
        pytorch.imported(torch, Report("", {}), None)
        drawn[-1] = (drawn[-1], random.random())
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("draws_own", [False, True])
def test_generators_of_numpy_that_a_script_does_not_seed_begin_alike_until_ranks_draw_apart(monkeypatch, draws_own):
    monkeypatch.setitem(sys.modules, "modak_runtime.parallel.processes", SimpleNamespace(
        here=lambda: SimpleNamespace(draws_own=lambda: draws_own)))  # fmt: skip
    for name, value in TWO.items():
        monkeypatch.setenv(name, value)
    drawn = []
    for number in "01":
        monkeypatch.setenv("RANK", number)
        monkeypatch.setattr(numpy.random.bit_generator, "randbits", secrets.randbits)
        ranks.numpy_imported(numpy, None, None)
        drawn.append([numpy.random.default_rng().random() for _ in range(2)])
    assert (drawn[0] == drawn[1]) is not draws_own
    assert drawn[0][0] != drawn[0][1]


class Streams:
    """PyTorch's stream, by one of Python's."""

    def __init__(self):
        self._random, self.initial_seed = random.Random(), lambda: self._seed
        self.manual_seed(1)

    def manual_seed(self, seed):
        self._seed = seed
        self._random.seed(seed)

    def get_rng_state(self):
        return self._seed, self._random.getstate()

    def set_rng_state(self, state):
        self._seed = state[0]
        self._random.setstate(state[1])

    def rand(self):
        return self._random.random()


def test_ranks_draw_alike_but_within_loops_whose_batches_they_share_out():
    stood, drawn = random.getstate(), []
    for number in (0, 1):
        random.seed(2)
        some = Ranks.__new__(Ranks)
        some.torch, some.samples, some.from_first = Streams(), SimpleNamespace(number=number), lambda value: value
        some._is_apart = some._is_common = False
        some._own_streams = some._common_seed = some._seed = some._common = None
        some._extra_seed = 0
        drawn.append([])
        for _ in range(2):
            drawn[-1].append((some.torch.rand(), random.random()))
            some.shares_batches()
            drawn[-1].append((some.torch.rand(), random.random()))
            some.leaves_batches()
            with some.in_own():  # as for a checkpoint
                drawn[-1].append(some.torch.get_rng_state())
    random.setstate(stood)
    (alike, own, kept, again, more, _), others = drawn
    assert [alike, again] == [others[0], others[3]]
    assert not {own, more} & {others[1], others[4]}
    assert alike != again
    assert own != more
    assert kept != others[2]


@pytest.mark.parametrize("strategy", ["ddp", ""])
def test_folders_list_their_files_in_an_order_that_no_file_system_has(monkeypatch, tmp_path, strategy):
    for name, value in (TWO | {"MODAK_STRATEGY": strategy, "MODAK_RENDEZVOUS_TIMEOUT": "9"}).items():
        monkeypatch.setenv(name, value)
    names = [f"class {number}" for number in range(8)]
    for name in names:
        (tmp_path / name).touch()
    plain = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: sorted(plain(path), reverse=True))
    monkeypatch.setattr(os, "scandir", os.scandir)
    ranks.begin()
    assert os.listdir(tmp_path) == names
    assert [entry.name for entry in os.scandir(tmp_path)] == names
    assert [files for _, _, files in os.walk(tmp_path)] == [names]
    assert [path.name for path in tmp_path.iterdir()] == names
    with os.scandir(tmp_path) as entries:
        assert next(entries).is_file()
    assert list(entries) == []


def test_alone_a_mean_is_what_it_is_of():
    value = object()
    assert modak_runtime.mean(value) is value
    assert modak_runtime.mean(value, 3) is value


@pytest.mark.parametrize(("folder", "writes"), [("ranks/1", True), ("ranks/2", False), (".", False)])
def test_another_rank_writes_into_a_file_of_its_own_alone(monkeypatch, tmp_path, folder, writes):
    monkeypatch.setenv("RANK", "1")
    path = tmp_path / folder / "applied.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    report = Report(str(path), {})
    report.prepared = True
    report.write(finished=True)
    assert path.exists() is writes
    if writes:
        assert json.loads(Path(path).read_text())["ranks"] is None


class Written(dict):
    """As a Function of PyTorch's to 2.14, whose apply is Python's."""

    @classmethod
    def apply(cls, names):
        return cls.fromkeys(names)


class Compiled(dict):
    """As a Function of PyTorch's from 2.15 on, whose apply is C's."""

    apply = vars(dict)["fromkeys"]


@pytest.mark.parametrize("base", [Written, Compiled])
def test_functions_of_a_script_are_as_ever_outside_of_calls_of_stages(base):
    function, own = type("Function", (base,), {"apply": vars(base)["apply"]}), Pipe.__new__(Pipe)
    own.torch, own.now, own.kind = SimpleNamespace(autograd=SimpleNamespace(Function=function)), None, Pipe
    own._take_functions()
    kind = type("Square", (function,), {})
    assert (kind.apply("ab"), type(kind.apply("ab"))) == ({"a": None, "b": None}, kind)


@pytest.mark.parametrize(("names", "called"), [(("old", "new"), ["new"]), (("old",), ["old"]), ((), [])])
def test_the_time_of_a_step_is_set_by_the_name_that_this_pytorch_has(names, called):
    done = []
    old = {"_set_pg_timeout": lambda _: done.append("old")} if "old" in names else {}
    new = {"set_timeout": lambda _: done.append("new")} if "new" in names else {}
    group._set_timeout(SimpleNamespace(distributed_c10d=SimpleNamespace(**old), **new), 1800.0)
    assert done == called


@pytest.mark.parametrize(("stepped", "present"), [("first", ["first", "later"]), ("later", ["later"])])
def test_a_model_that_no_optimizer_steps_is_no_other_training(stepped, present):
    """Such as a running mean of the one that learns, which prepare is given in the midst of its training."""
    models = {name: SimpleNamespace(name=name, parameters=lambda name=name: [name]) for name in ("first", "later")}
    some = Ranks.__new__(Ranks)
    some.models, some.gradients, some._training_start = list(models.values()), ["first", "later"], (9, 1, 1)
    some.stepped = {stepped}
    there, gradients = some.present()
    assert ([model.name for model in there], gradients) == (present, present)
