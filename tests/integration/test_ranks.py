"""Several ranks train what one process would: plain scripts with the one line, as real processes on loopback."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from cluster import thorough

from modak_ansible.catalogue import digits
from modak_ansible.runtime import FILES

HERE = Path(__file__).parent / "ranks"
LEARNERS, LOOPS = HERE / "learners.py", HERE / "loops.py"
WORLDS = [("ddp", 2), ("fsdp", 2), *thorough(("ddp", 4), ("fsdp", 4))]


@dataclass
class Done:
    """One rank that has ended."""

    code: int
    output: str
    errors: str


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def run(
    python: str, script: Path, *arguments: str, world: int = 2, only: tuple[int, ...] = (), **more: str
) -> list[Done]:
    """The ranks of a training, or some of them only; a single one is told nothing of ranks."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(python, script, arguments, world, only, {"MODAK_APPLIED": f"{folder}/RANK/applied.json", **more})


def _run(
    python: str, script: Path, arguments: tuple[str, ...], world: int, only: tuple[int, ...], more: dict[str, str]
) -> list[Done]:
    port, started, applied = free_port(), [], []
    for rank in only or range(world):
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("MODAK", "PYTHON"))}
        ours |= {"PYTHONPATH": str(FILES), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        ours |= {"PYTHONFAULTHANDLER": "1"}
        if world > 1:
            ours |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "MODAK_STRATEGY": "ddp", "GLOO_SOCKET_IFNAME": "lo"}
            ours |= {"WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
            ours |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "MODAK_RENDEZVOUS_TIMEOUT": "120"}
        command = [python, str(script), *arguments]
        filled = {name: value.replace("RANK", str(rank)) for name, value in more.items()}
        applied.append(Path(filled["MODAK_APPLIED"]))
        applied[-1].parent.mkdir(parents=True, exist_ok=True)
        started.append(
            subprocess.Popen(command, env=ours | filled, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    try:
        ended = [started[0].communicate(timeout=600)]
        for process in started[1:]:
            if _is_stopped(process):
                process.kill()
            ended.append(process.communicate(timeout=600))
    except subprocess.TimeoutExpired:
        pytest.fail("\n".join(["a rank does not end; what each said, and where it is:", *map(_last_words, started)]))
    finally:
        for process in started:
            process.kill()
    # as the job's script judges it: PyTorch's threads may abort a process that has come to its end
    came = [each.with_name("came_to_its_end").exists() and process.returncode == -6
            for each, process in zip(applied, started, strict=True)]  # fmt: skip
    return [
        Done(0 if has_come else process.returncode, *words)
        for process, has_come, words in zip(started, came, ended, strict=True)
    ]


def _last_words(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGABRT)  # upon which Python says where its threads are
    try:
        return process.communicate(timeout=20)[1]
    except subprocess.TimeoutExpired:
        return "nothing, as another process has its output open"


def _is_stopped(process: subprocess.Popen[str]) -> bool:
    try:
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def results(python: str, *cases: str, world: int, script: Path = LEARNERS, **more: str) -> list[dict]:
    done = run(python, script, *cases, world=world, **more)
    assert [each.code for each in done] == [0] * world, "\n".join(each.errors for each in done)
    return [json.loads(each.output) for each in done]


@pytest.fixture(scope="module")
def trained(pytorch_python: str):
    """What so many ranks make of every case, computed once."""
    known: dict[tuple[str, int], dict] = {}

    def by(strategy: str, world: int) -> dict:
        if (strategy, world) not in known:
            known[strategy, world] = results(pytorch_python, world=world, MODAK_STRATEGY=strategy)[0]
        return known[strategy, world]

    return by


@pytest.mark.parametrize(("strategy", "world"), WORLDS)
def test_ranks_learn_what_one_process_learns(trained, strategy, world):
    """Five seeds of each case: all losses, and the weights in the end, but for the order in which is added."""
    alone, together = trained("", 1), trained(strategy, world)
    assert set(alone) == set(together)
    assert len(alone) >= 75
    for case, expected in alone.items():
        assert together[case] == pytest.approx(expected, rel=1e-3, abs=2e-5), case
        assert expected or case.startswith("workers")


@pytest.mark.parametrize(
    ("strategy", "world", "choices"),
    [("ddp", 2, ""), *thorough(("fsdp", 2, ""), ("ddp", 4, ""), ("ddp", 2, "accumulation=2"))],
)
def test_loops_of_all_kinds_learn_what_they_do_in_one_process(pytorch_python, strategy, world, choices):
    """Three seeds of each: all losses, and the weights in the end."""
    in_all_runs = LOOPS.read_text().partition("\nASKED_FOR = ")[0]
    cases = tuple(re.findall(r'^    "(\w+)": ', in_all_runs, re.MULTILINE))
    # of which the pages tell
    unlike = {"penalised": strategy == "fsdp", "pieces": world == 4}
    cases = tuple(each for each in cases if not unlike.get(each))
    more = {"script": LOOPS, **({"MODAK_CHOICES": choices} if choices else {})}
    alone = results(pytorch_python, *cases, world=1, **more)[0]
    for together in results(pytorch_python, *cases, world=world, MODAK_STRATEGY=strategy, **more):
        for case, expected in alone.items():
            assert together[case] == pytest.approx(expected, rel=1e-3, abs=2e-5), case


@pytest.mark.parametrize(
    ("strategy", "case", "words"),
    [
        ("ddp", "odd_pieces", "another number of backward passes for a step"),
        ("ddp", "odd_pieces_later", "another number of backward passes for a step"),
        ("ddp", "odd_pieces_at_last", "another number of backward passes for a step"),
        ("ddp", "odd_pieces_at_a_break", "another number of backward passes for a step"),
        ("ddp", "joined_unlike", "joins batches that the number of ranks does not divide, of 5 and 7 samples here"),
        *thorough(
            ("fsdp", "odd_pieces", "another number of backward passes for a step"),
            ("fsdp", "odd_pieces_later", "another number of backward passes for a step"),
            ("fsdp", "odd_pieces_at_last", "another number of backward passes for a step"),
            ("fsdp", "penalised", "a gradient of a gradient is not known with fsdp"),
        ),
    ],
)
def test_loops_that_ranks_cannot_make_as_one_process_does_end_at_once(pytorch_python, strategy, case, words):
    for each in run(pytorch_python, LOOPS, case, MODAK_STRATEGY=strategy):
        assert each.code == 1
        assert words in each.errors
        assert "Traceback" not in each.errors


def test_each_rank_draws_for_itself_in_an_order_of_all(pytorch_python):
    first, other = (each["apart/0"] for each in results(pytorch_python, "apart", world=2))
    loops = range(0, 16, 4)  # two batches without and two with other processes: numbers, and what was drawn for each
    for at in loops:
        assert sorted(first[at] + other[at])[0] >= 0
        assert not set(first[at]) & set(other[at])
        for place in range(at + 1, at + 4):
            assert not set(first[place]) & set(other[place])
    for at in (0, 8):
        assert sorted(first[at] + other[at] + first[at + 4] + other[at + 4]) == list(range(16))
    assert first[16] != other[16]
    assert not {first[17], first[18]} & {other[17], other[18]}
    assert first[19:] == other[19:]  # behind the loops


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("g++"), reason="inductor needs a C++ compiler")
def test_choices_of_the_plan_act_in_every_rank(pytorch_python, tmp_path):
    choices = "memory_format=channels_last compiler=inductor input=memory workers=0"
    alone = results(pytorch_python, "images", world=1)[0]
    (tmp_path / "ranks" / "1").mkdir(parents=True)
    applied = str(tmp_path / "ranks" / "RANK" / "applied.json")
    (tmp_path / "ranks" / "0").mkdir()
    together = results(pytorch_python, "images", world=2, MODAK_CHOICES=choices, MODAK_APPLIED=applied)
    for each in together:
        for case, losses in alone.items():
            assert each[case] == pytest.approx(losses, rel=1e-3, abs=1e-5)
    for rank in range(2):
        report = json.loads((tmp_path / "ranks" / str(rank) / "applied.json").read_text())
        assert report["mistakes"] == []
        assert {name: choice["applied"] for name, choice in report["choices"].items()} == dict(
            each.split("=") for each in choices.split()
        )
        assert report["ranks"] == {"number": rank, "world": 2, "strategy": "ddp", "loaders": 5}  # of five seeds


WAYS = [
    "gradient_compression=powersgd", "local_sgd=4 gradient_compression=bf16",
    *thorough("gradient_compression=powersgd_4", "gradient_compression=fp16", "gradient_compression=bf16", "local_sgd=4"),
]  # fmt: skip


@pytest.fixture(scope="module")
def lasting_alone(pytorch_python: str) -> dict:
    return results(pytorch_python, "lasting", world=1)[0]


@pytest.mark.parametrize("choices", WAYS)
def test_other_sums_learn_as_well(pytorch_python, tmp_path, lasting_alone, choices):
    """Not the same, which shows that they act; but the loss falls as far, and both ranks have the same weights."""
    for rank in range(2):
        (tmp_path / "ranks" / str(rank)).mkdir(parents=True)
    applied = str(tmp_path / "ranks" / "RANK" / "applied.json")
    together = results(pytorch_python, "lasting", world=2, MODAK_CHOICES=choices, MODAK_APPLIED=applied)
    assert together[0] == together[1]
    for case, expected in lasting_alone.items():
        assert together[0][case] != pytest.approx(expected, rel=1e-6)
        assert expected[-1] < 0.2 * expected[1]
        assert together[0][case][-1] < 0.25 * expected[1]
    report = json.loads((tmp_path / "ranks" / "1" / "applied.json").read_text())
    assert {name: choice["applied"] for name, choice in report["choices"].items()} == dict(
        each.split("=") for each in choices.split()
    )


@pytest.mark.parametrize("choices", ["accumulation=2", *thorough("bucket_size=1")])
def test_other_sums_that_learn_the_same(pytorch_python, choices):
    """Passes of batches that do not divide, which ranks sum once a step; five seeds."""
    cases = ("uneven", "now_and_then")
    alone = results(pytorch_python, *cases, world=1, MODAK_CHOICES=choices)[0]
    for case, expected in results(pytorch_python, *cases, world=2, MODAK_CHOICES=choices)[0].items():
        assert expected == pytest.approx(alone[case], rel=1e-3, abs=2e-5), case


# --- what no sum of gradients passes


@pytest.mark.parametrize("case", ["by_hand", "dropping", "emptied"])
def test_gradients_count_as_the_samples_that_they_are_of(pytorch_python, case):
    """Where no backward pass leaves them, by their mean; and where a collate_fn has dropped some."""
    alone = results(pytorch_python, case, world=1)[0]
    for together in results(pytorch_python, case, world=2):
        for seed, expected in alone.items():
            assert together[seed] == pytest.approx(expected, rel=1e-3, abs=2e-5), seed


def test_what_the_first_rank_alone_looks_at_keeps_nobody_waiting(pytorch_python):
    alone = results(pytorch_python, "shown", world=1)[0]
    for case, expected in results(pytorch_python, "shown", world=2)[0].items():
        assert expected == pytest.approx(alone[case], rel=1e-3, abs=2e-5), case


DRIFT = "is no longer the same in ranks 0 and 1"


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("grad", ("torch.autograd.grad gives a rank the gradients of its part", f"0.weight {DRIFT}")),
        ("order", ("ranks 0 and 1 draw other batches of one loader",)),
        ("lbfgs", ("LBFGS looks at losses, which ranks have of their parts alone: give it to prepare",)),
        *thorough(
            ("noise", (f"0.weight {DRIFT}",)),
            ("late", ("SGD steps parameters that its model had not when prepare was called",)),
            ("twice", ("a gradient of a gradient through BatchNorm is not known in several processes",)),
        ),
    ],
)
def test_ranks_that_would_drift_are_ended(pytorch_python, how, words):
    first, other = run(pytorch_python, HERE / "drifting.py", how)
    assert (first.code, other.code) == (1, 1), first.errors
    for each in words:
        assert each in first.errors
    assert "Traceback" not in first.errors


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("strategy", "how", "words"),
    [
        ("ddp", "buffer", "the buffer seen is not the same in all ranks"),
        ("fsdp", "buffer", "the buffer seen is not the same in all ranks"),
        ("ddp", "hook", "a hook on a parameter is given the gradient of a rank's part"),
        ("ddp", "other", "SGD steps parameters that prepare was not given"),
        ("ddp", "evaluates", "made no backward pass"),
        ("ddp", "none", ""),
    ],
)
def test_what_ranks_have_apart_is_said(pytorch_python, strategy, how, words):
    first, other = run(pytorch_python, HERE / "drifting.py", how, MODAK_STRATEGY=strategy)
    assert (first.code, other.code) == (0, 0), first.errors
    assert first.errors.count(words) == 1 if words else "modak:" not in first.errors
    assert first.output == other.output
    assert "modak:" not in other.errors


# --- batches that grow with the ranks


def stepped(first: dict, batches: list[list[int]], world: int, by_layer: bool, warm: int) -> list[tuple]:
    """The weights and biases behind each step, written out: SGD with momentum and decay at a rate that grows.

    The rate of a step is ``lr * (1 + (world - 1) * min(1, step / warm))``; that of a layer's matrix is with LARS at most
    ``0.02 * |w| / (|g| + decay * |w|)``.
    """
    x, y = np.array(first["x"]), np.array(first["y"])
    weights, found = [np.array(each) for each in first["begun"]], []
    momenta = [np.zeros_like(each) for each in weights]
    for made, (batch, step) in enumerate(zip(batches, first["steps"], strict=True)):
        rate = step["rate"] * (1 + (world - 1) * min(1.0, (made + 1) / warm))
        off = 2 * (x[batch] @ weights[0].T + weights[1] - y[batch]) / (len(batch) * 3)
        for place, gradient in enumerate((off.T @ x[batch], off.sum(0))):
            bound = 1.0
            if by_layer and place == 0:
                size = np.linalg.norm(weights[0])
                bound = min(1.0, 0.02 * size / (np.linalg.norm(gradient) + 0.01 * size) / rate)
            momenta[place] = 0.9 * momenta[place] + bound * (gradient + 0.01 * weights[place])
            weights[place] = weights[place] - rate * momenta[place]
        found.append(tuple(weights))
    return found


@pytest.mark.parametrize(("planned", "world"), [("none", 2), ("linear", 2), ("lars", 2), *thorough(("lars", 3))])
def test_a_larger_batch_steps_as_it_is_written_out(pytorch_python, planned, world):
    more = {} if planned == "none" else {"MODAK_CHOICES": f"large_batch={planned} warm_up=2"}
    done = run(pytorch_python, HERE / "large_batches.py", world=world, **more)
    assert [each.code for each in done] == [0] * world, "\n".join(each.errors for each in done)
    ranks = [json.loads(each.output) for each in done]
    times = 1 if planned == "none" else world
    batches = [
        [number for each in step for number in each["samples"]]
        for step in zip(*(rank["steps"] for rank in ranks), strict=True)
    ]
    assert len(batches[0]) == 6 * times
    warm = 2 * -(-48 // (6 * times))
    expected = stepped(ranks[0], batches, times, planned == "lars", warm)
    for step, (weight, bias) in zip(ranks[0]["steps"], expected, strict=True):
        assert np.array(step["weights"][0]) == pytest.approx(weight, rel=1e-3, abs=1e-5)
        assert np.array(step["weights"][1]) == pytest.approx(bias, rel=1e-3, abs=1e-5)
    assert ranks[0]["kept"] == (None if planned == "none" else len(batches))
    assert ranks[0]["steps"][0]["rate"] == 0.05, "the script finds its own"


@pytest.mark.thorough
def test_a_batch_does_not_grow_beyond_the_data_where_the_rest_is_dropped(pytorch_python):
    done = run(pytorch_python, HERE / "large_batches.py", world=2, MODAK_CHOICES="large_batch=linear", BATCH="30")
    assert [each.code for each in done] == [0, 0], "\n".join(each.errors for each in done)
    steps = [json.loads(each.output)["steps"] for each in done]
    assert [sum(len(rank[step]["samples"]) for rank in steps) for step in range(4)] == [30] * 4


@pytest.mark.parametrize("planned", ["linear", *thorough("lars")])
def test_drawn_digits_are_learned_as_well_in_larger_batches(pytorch_python, tmp_path, planned):
    digits.write(tmp_path)
    more = {"MODAK_CHOICES": f"large_batch={planned} warm_up=1"}
    done = run(pytorch_python, HERE / "digits.py", str(tmp_path), "1", "6", "32", "0.02", world=2, **more)
    assert [each.code for each in done] == [0, 0], "\n".join(each.errors for each in done)
    first, other = (json.loads(each.output) for each in done)
    assert first == other
    assert first["steps"] == 6 * -(-6000 // 64)
    assert first["right"][-1] > 0.95


# --- what does not come together


def test_ranks_that_do_not_come_are_named_with_the_addresses(pytorch_python):
    began = time.monotonic()
    # rank 2 waits longer than rank 0, as where it came later
    done = run(pytorch_python, LEARNERS, "uneven", world=4, only=(0, 2), MODAK_RENDEZVOUS_TIMEOUT="RANK25")
    assert time.monotonic() - began < 300
    for each in done:
        assert (each.code, each.output) == (1, "")
        assert "of 4 ranks 1 and 3 did not come to 127.0.0.1:" in each.errors
        assert f"this one is on {socket.gethostname()} (127.0.0.1)" in each.errors
        assert "Traceback" not in each.errors


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"only": (1,)}, "rank 0 was not reached at 127.0.0.1:"),
        ({"MASTER_ADDR": "nowhere.invalid"}, "nowhere.invalid"),
        ({"GLOO_SOCKET_IFNAME": "eth99"}, "through the interface eth99"),
        ({"MODAK_STRATEGY": "guess"}, "does not know the strategy guess"),
        ({"MASTER_PORT": "none"}, "must be numbers"),
    ],
)
def test_what_keeps_ranks_apart_is_told(pytorch_python, more, words):
    for each in run(pytorch_python, LEARNERS, "uneven", **({"MODAK_RENDEZVOUS_TIMEOUT": "5"} | more)):
        assert each.code == 1
        assert words in each.errors
        assert "Traceback" not in each.errors


@pytest.mark.parametrize(("how", "words"), [("data", "of [10] and [11] batches"), *thorough(("model", "models"))])
def test_ranks_that_were_made_differently_do_not_train(pytorch_python, how, words):
    for each in run(pytorch_python, HERE / "differing.py", how):
        assert each.code == 1
        assert words in each.errors


@pytest.mark.parametrize(
    ("how", "strategy"), [("dies", "ddp"), ("dies", "tensor"), *thorough(("dies", "pipeline"), ("raises", "ddp"))]
)
def test_one_that_is_lost_ends_the_others(pytorch_python, how, strategy):
    first, lost = run(pytorch_python, HERE / "differing.py", how, MODAK_STRATEGY=strategy)
    assert (first.code, lost.code) == (1, 7 if how == "dies" else 1)
    assert "lost another rank" in first.errors
    assert "Traceback" not in first.errors


@pytest.mark.parametrize("how", ["stops", *thorough("leaves")])
def test_ranks_that_are_parallel_by_themselves_are_watched_too(pytorch_python, tmp_path, how):
    own = {
        "MODAK_STRATEGY": "",
        "MODAK_APPLIED": str(tmp_path / "RANK" / "applied.json"),
        "MODAK_RENDEZVOUS_TIMEOUT": "5",
    }
    (tmp_path / "0").mkdir()
    (tmp_path / "1").mkdir()
    first, other = run(pytorch_python, HERE / "parallel.py", how, **own)
    if how == "leaves":
        assert (first.output, other.output) == ("trained\n", "trained\n")
        assert (tmp_path / "1" / "came_to_its_end").exists()
        return
    assert first.code == 68
    assert f"rank 1 on {socket.gethostname()} (127.0.0.1) was not heard of for 5 s" in first.errors
    assert (tmp_path / "0" / "lost").read_text() == f"1 68 {socket.gethostname()} silent\n"


# --- checkpoints


class Stopped:
    """A training that one rank's STOP file ends after so many steps, and that goes on in so many ranks."""

    def __init__(self, python: str, kind: str, folder: Path, **more: str) -> None:
        self._python, self._kind, self._stop, self._more = python, kind, folder / "stop", more
        self._saves = {"MODAK_CHECKPOINTS": str(folder / "checkpoints"), "MODAK_STOP": str(self._stop)}

    def run(self, world: int, after: int | None = None, *, saves: bool = True) -> tuple[str, list[float]]:
        """What the first rank said, and the losses of a training that came to its end."""
        self._stop.unlink(missing_ok=True)
        more = self._more | (self._saves if saves else {}) | ({"STOP_AFTER": str(after)} if after else {})
        done = run(self._python, HERE / "going_on.py", self._kind, world=world, **more)
        assert {each.code for each in done} == {85 if after else 0}, "\n".join(each.errors for each in done)
        assert not any("modak:" in each.output for each in done[1:])
        return done[0].output, [] if after else ast.literal_eval(done[0].output.rpartition("losses ")[2])


@pytest.mark.parametrize(
    ("strategy", "world", "more"),
    [
        ("ddp", 2, {}),
        ("ddp", 2, {"MODAK_CHOICES": "gradient_compression=powersgd"}),
        ("ddp", 2, {"MODAK_CHOICES": "local_sgd=3 accumulation=2"}),
        ("fsdp", 2, {}),
        ("tensor", 2, {}),
        ("pipeline", 2, {}),
        ("tensor_2", 4, {}),
        *thorough(("pipeline_2", 4, {}), ("fsdp_2", 4, {})),
        # with four, the place in a bucket settles the order of sums
        *thorough(("ddp", 2, {"READERS": "1"}), ("ddp", 4, {}), ("fsdp", 4, {})),
        *thorough(("ddp", 4, {"MODAK_CHOICES": "gradient_compression=powersgd"})),
    ],
)
def test_as_many_ranks_go_on_to_the_bit(pytorch_python, tmp_path, strategy, world, more):
    training = Stopped(pytorch_python, "noisy", tmp_path, MODAK_STRATEGY=strategy, **more)
    _, whole = training.run(world, saves=False)
    for after in (2, 9):  # the last one is in the second epoch
        training.run(world, after)
    said, losses = training.run(world)
    assert "the training continues after" in said and "of epoch 2" in said
    assert losses == whole


@pytest.mark.parametrize("strategy", ["fsdp", *thorough("ddp", "tensor", "pipeline")])
def test_others_go_on_from_the_same_sample(pytorch_python, tmp_path, strategy):
    more = {"tensor": 4, "pipeline": 2}.get(strategy, 3)  # which divide layers, or are no more
    training = Stopped(pytorch_python, "plain", tmp_path, MODAK_STRATEGY=strategy)
    _, whole = training.run(1, saves=False)
    training.run(2, 3)
    said, _ = training.run(1, 8)
    assert "continues, in one process instead of 2, after 3 steps of epoch 1" in said
    said, losses = training.run(more)
    assert f"continues, with {more} ranks instead of 1, after 2 steps of epoch 2" in said
    assert losses == pytest.approx(whole, rel=1e-4)


def test_ranks_go_on_in_another_mesh(pytorch_python, tmp_path):
    """Two copies in two parts each, then four ranks with all of the model, then two with a half each."""
    _, whole = Stopped(pytorch_python, "plain", tmp_path).run(1, saves=False)
    for strategy, world, after in (("tensor_2", 4, 3), ("ddp", 4, 8), ("tensor", 2, None)):
        training = Stopped(pytorch_python, "plain", tmp_path, MODAK_STRATEGY=strategy)
        said, losses = training.run(world, after)
        assert ("the training continues" in said) is (strategy == "ddp" or world == 2)
    assert losses == pytest.approx(whole, rel=1e-4)
