"""Whether ranks are still alike, by what they say of themselves; nothing of it needs PyTorch."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from modak_ansible.runtime import FILES

sys.path.insert(0, str(FILES))

from modak_runtime.parallel import consistency

sums_of = consistency._sums
PARAMETER = SimpleNamespace(_backward_hooks=None, _post_accumulate_grad_hooks={0: "ours"})


class Ranks:
    """The first of two, the other of which says what it is told to."""

    def __init__(self, theirs, parameter=PARAMETER):
        model = SimpleNamespace(named_parameters=lambda: [("weight", parameter)], named_buffers=lambda: [])
        self.models = [model]
        self.present = lambda: ([model], [SimpleNamespace(parameters=[parameter])])
        self.has_parts = self.is_alike = self.has_looked = False
        self.is_compared = True
        self.torch, self.said, self._theirs = None, [], theirs
        self.rank, self.say_once = self, self.said.append

    def is_whole(self):
        return True

    def gathered(self, mine):
        return [mine, self._theirs]

    def end(self, words):
        raise SystemExit(words)


@pytest.fixture(autouse=True)
def sums(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", lambda *_: None)
    monkeypatch.setattr(consistency, "_sums", lambda _, tensors: [(1.0, 2.0, 4) for _ in tensors])


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        ((7, [(1.0 + 1e-4, 2.0, 4)], {}), "weight is no longer the same in ranks 0 and 1"),
        ((8, [(1.0, 2.0, 4)], {}), "ranks 0 and 1 draw other batches of one loader"),
    ],
)
def test_ranks_that_are_not_alike_are_ended(theirs, words):
    with pytest.raises(SystemExit, match=words):
        consistency.look(Ranks(theirs), 7)


def test_of_parts_of_models_the_samples_are_compared_too():
    """By a stream that goes by the rank, each would learn from a part of the data."""
    ranks = Ranks((8, [], {}))
    ranks.has_parts = True
    with pytest.raises(SystemExit, match="ranks 0 and 1 draw other batches of one loader"):
        consistency.look(ranks, 7)


@pytest.mark.parametrize("other", [1.0, 1.0 + 1e-6, float("nan")])
def test_processors_that_round_differently_are_alike(other):
    ranks = Ranks((7, [(other, 2.0, 4)], {}))
    consistency.look(ranks, 7)
    assert ranks.has_looked
    assert ranks.said == []


def test_after_many_steps_they_may_have_rounded_more():
    ranks = Ranks((7, [(1.0 + 1e-4, 2.0, 4)], {}))
    ranks.has_looked = True
    consistency.look(ranks, 7)


@pytest.mark.parametrize("hooks", [{"_backward_hooks": {0: "clips"}}, {"_post_accumulate_grad_hooks": {0: 1, 1: 2}}])
def test_hooks_that_see_the_gradients_of_a_part_are_said(hooks):
    ranks = Ranks((7, [(1.0, 2.0, 4)], {}), SimpleNamespace(**{**vars(PARAMETER), **hooks}))
    consistency.look(ranks, 7)
    assert len(ranks.said) == 1
    assert "a hook on a parameter is given the gradient of a rank's part" in ranks.said[0]


class Edge(NamedTuple):
    """Of a graph, as PyTorch names one."""

    node: object
    number: int


@pytest.mark.parametrize("asked", [Edge(object(), 0), [PARAMETER], iter([PARAMETER]), {"weight": PARAMETER}])
def test_gradients_are_asked_for_as_the_script_does(monkeypatch, asked):
    ranks = SimpleNamespace(has_part=lambda: True, summed_ids=lambda: {id(PARAMETER)}, said=[], arrivals=0)
    ranks.say_once, ranks.strategy = ranks.said.append, "ddp"
    monkeypatch.setitem(sys.modules, "modak_runtime.parallel.processes", SimpleNamespace(here=lambda: ranks))
    torch = SimpleNamespace(
        Tensor=SimpleNamespace, autograd=SimpleNamespace(grad=lambda outputs, inputs, **_: (outputs, inputs))
    )
    consistency.imported(torch)
    outputs, inputs = torch.autograd.grad("loss", asked, create_graph=True)
    assert outputs == "loss"
    if isinstance(asked, (Edge, list, dict)):
        assert inputs is asked
    else:
        assert inputs == (PARAMETER,)
    assert len(ranks.said) == ranks.arrivals == (not isinstance(asked, Edge))  # the loop learns something


def test_a_gradient_of_a_gradient_ends_a_training_that_would_lose_some(monkeypatch):
    ranks = SimpleNamespace(strategy="fsdp", rank=SimpleNamespace(end=sys.exit))
    monkeypatch.setitem(sys.modules, "modak_runtime.parallel.processes", SimpleNamespace(here=lambda: ranks))
    torch = SimpleNamespace(autograd=SimpleNamespace(grad=lambda *_, **__: ()))
    consistency.imported(torch)
    for asked in ((("loss", [], None, None, True), {}), (("loss", []), {"create_graph": True})):
        with pytest.raises(SystemExit, match="a gradient of a gradient is not known with fsdp"):
            torch.autograd.grad(*asked[0], **asked[1])


class Optimizer:
    param_groups = ()


@pytest.mark.parametrize("part", [(3, 6), (1, 2)])
def test_steps_behind_a_loop_are_said_where_they_learn_from_more_than_it_gave(monkeypatch, part):
    steps = []
    module = SimpleNamespace(register_optimizer_step_pre_hook=steps.append)
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", module)
    turn = SimpleNamespace(is_over=True, behind=None, ahead=False)
    ranks = SimpleNamespace(turn=turn, looks=None, part=part, arrivals=4, samples=SimpleNamespace(size=2), said=[])
    ranks.say_once, ranks.has_parts, ranks.has_part = ranks.said.append, False, lambda: False
    consistency.follow_steps(SimpleNamespace(), ranks)
    for optimizer in (Optimizer(), Optimizer()):  # two with gradients of the loop
        steps[0](optimizer, (), {})
    assert (ranks.part, ranks.said) == ((1, 2), [])
    ranks.arrivals += 1
    steps[0](Optimizer(), (), {})
    assert len(ranks.said) == 1


class Weight:
    grad = None


WEIGHT = Weight()


class Training:
    """Two ranks, the first of which has five of ten samples, in a loop that makes steps."""

    def __init__(self):
        self.turn = SimpleNamespace(is_over=False, pieces=None, stepped=set())
        self.looks, self.has_parts, self.is_compared, self.part = None, False, True, (5, 10)
        self.stepped, self.steps, self.models, self.optimizers, self.said = set(), 0, [], set(), []
        self.rank, self.summed_ids, self.has_part = self, lambda: {id(WEIGHT)}, lambda: True

    def say(self, words, by_all=False):
        self.said.append(words)

    say_once = say


@pytest.fixture
def followed(monkeypatch):
    hooks, ranks = [], Training()
    optimizers = SimpleNamespace(register_optimizer_step_pre_hook=hooks.append)
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", optimizers)
    consistency.follow_steps(SimpleNamespace(optim=SimpleNamespace(LBFGS=int)), ranks)
    return ranks, hooks[0]


@pytest.mark.parametrize(("pieces", "times"), [(True, 1), (False, 0), (None, 0)])
def test_a_step_for_each_piece_of_a_batch_is_told(followed, pieces, times):
    (ranks, about_to_step), one, other = followed, Optimizer(), Optimizer()
    ranks.turn.pieces, one.param_groups = pieces, [{"params": [WEIGHT]}]
    for each in (one, other):  # each of them once for a batch
        about_to_step(each)
    assert ranks.said == []
    about_to_step(one)
    assert [each for each in ranks.said if "steps for each piece" in each] == ranks.said
    assert len(ranks.said) == times
    assert ranks.steps == 1  # of parameters whose gradients ranks sum, but for the first


@pytest.mark.parametrize(
    ("error", "has_stepped", "times"), [(RuntimeError(), False, 1), (RuntimeError(), True, 0), (KeyError(), False, 0)]
)
def test_an_error_before_the_first_step_may_be_a_size_that_is_written_as_a_number(followed, error, has_stepped, times):
    ranks, _ = followed
    ranks.is_compared = has_stepped
    sys.excepthook(type(error), error, None)
    assert len(ranks.said) == times
    assert all("5 of 10 samples" in each for each in ranks.said)


class Tensor(list):
    def dim(self):
        return 1


@pytest.mark.parametrize(
    ("cuts", "lengths", "ends"),
    [
        ([(16, 2), (7, 1)], (16, 7), True),  # the samples of seven are in both ranks
        ([(16, 2)], (16, 16), False),
        ([(5, 4), (5, 2)], (5, 5), False),  # of four ranks: batches of 20, and a last one of 10; nobody knows which
        ([(16, 2), (7, 1)], (16, 3), False),  # no batch has three
    ],
)
def test_batches_that_were_not_cut_alike_are_not_joined(cuts, lengths, ends):
    ranks, modes = Ranks(None), ["one that the script has entered"]
    ranks.torch = SimpleNamespace(compiler=None, overrides=SimpleNamespace(
        TorchFunctionMode=object, _len_torch_function_stack=modes.__len__, _pop_mode=modes.pop, _push_mode=modes.append,
    ))  # fmt: skip
    ranks.cuts, ranks.has_part = cuts, lambda: True
    for _ in range(2):
        consistency.follow_joins(ranks)
    ours, _ = modes  # which the script leaves first
    tensors = [Tensor(range(length)) for length in lengths]

    def hstack(given):
        return given

    if ends:
        with pytest.raises(SystemExit, match="of 16 and 7 samples here"):
            ours.__torch_function__(hstack, (), (tensors,))
    else:
        assert ours.__torch_function__(hstack, (), (tensors,)) == tensors


class Numbers(list):
    """A tensor, as far as it is summed: what is summed as float64 is copied."""

    largest = 0

    def detach(self):
        return self

    def is_complex(self):
        return False

    def numel(self):
        return len(self)

    def reshape(self, _):
        return self

    def split(self, size):
        return [Numbers(self[first : first + size]) for first in range(0, len(self), size)] or [self]

    def sum(self, dtype):
        assert dtype == "float64"
        return SimpleNamespace(item=lambda: math.fsum(self))


def vector_norm(numbers, dtype):
    assert dtype == "float64"
    Numbers.largest = max(Numbers.largest, len(numbers))
    return SimpleNamespace(item=lambda: math.hypot(*numbers))


def test_what_is_compared_is_not_copied_as_a_whole(monkeypatch):
    """A float64 copy of the largest weight was what a rank had most memory for."""
    monkeypatch.setattr(consistency, "_AT_ONCE", 1000)
    torch = SimpleNamespace(float64="float64", linalg=SimpleNamespace(vector_norm=vector_norm))
    tensors = Numbers([3.0] * 2001), Numbers([]), Numbers([4.0])
    assert sums_of(torch, tensors) == [
        (6003.0, pytest.approx(3 * math.sqrt(2001)), 2001), (0.0, 0.0, 0), (4.0, 4.0, 1)
    ]  # fmt: skip
    assert Numbers.largest == 1000
