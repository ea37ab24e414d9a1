"""Ranks tell each other that they are alive: who is stopped, slow or unreachable is named."""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from modak_ansible.runtime import FILES
from modak_ansible.target.jobs.markers import failed_rank

sys.path.insert(0, str(FILES))

from modak_runtime.parallel.alive import Alive, Pace, watched

sys.path.remove(str(FILES))

RANK = r"""\
import json, os, subprocess, sys, threading, time
from modak_runtime.parallel.alive import Alive, Pace, end
number, folder, each, waits = int(os.environ["RANK"]), sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
steps, pace = [0], Pace()
pace.counts(lambda: steps[0])
def slow(seconds, who):
    with open(folder + "/slow.part", "w") as file:
        json.dump([seconds, who], file)
    os.replace(folder + "/slow.part", folder + "/slow")
alive = Alive(number, 2, "node%02d (10.0.0.%d)" % (number + 1, number + 1), 1.5, pace, end, slow, float(os.environ["AWAITED"]))
if number == 0:
    with open(folder + "/port.part", "w") as file:
        file.write(str(alive.listen("127.0.0.1")))
    os.rename(folder + "/port.part", folder + "/port")
else:
    while not os.path.exists(folder + "/port"):
        time.sleep(0.02)
    alive.join("127.0.0.1", int(open(folder + "/port").read()), "node01 (10.0.0.1)")
until = time.monotonic() + 20
def hangs():
    threading.Event().wait()
def sums():
    pace.waits(threading.Event().wait)
def computes():
    while time.monotonic() < until:
        pass
def awaits_another():
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 5: pass"], stderr=subprocess.DEVNULL)
def writes():
    while time.monotonic() < until:
        time.sleep(0.5)
        os.write(1, b".")
while time.monotonic() < until:
    if os.environ["BECOMES"]:
        globals()[os.environ["BECOMES"]]()
    time.sleep(each)
    pace.waits(time.sleep, waits)
    steps[0] += 1
"""

pytestmark = pytest.mark.component


class Ranks:
    """Two processes that count steps, of so many seconds of their own and of waiting, or do what has a name."""

    def __init__(self, folder: Path, *does: tuple[float, float] | str) -> None:
        self.folder = folder
        self.started = []
        for rank, each in enumerate(does):
            (place := folder / "ranks" / str(rank)).mkdir(parents=True)
            more = {"RANK": str(rank), "PYTHONPATH": str(FILES), "MODAK_APPLIED": str(place / "applied.json")}
            own, waits = (0, 0) if isinstance(each, str) else each
            more["BECOMES"] = each if isinstance(each, str) else ""
            more["AWAITED"] = "3" if "computes" in does else "30"
            self.started.append(
                subprocess.Popen(
                    [sys.executable, folder / "train.py", str(folder), str(own), str(waits)],
                    env=os.environ | more,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )

    def slow(self) -> list:
        path, limit = self.folder / "slow", time.monotonic() + 20
        while not path.exists():
            assert time.monotonic() < limit, "nothing was told of the ranks' steps"
            time.sleep(0.05)
        return json.loads(path.read_text())

    def words_of_the_first(self, state: Path, how: str) -> str:
        """What rank 0 says as it ends all of them."""
        first = self.started[0]
        _, words = first.communicate(timeout=18)
        assert first.returncode == 68
        (state / "failed_rank").write_text((lost := state / "ranks" / "0" / "lost").read_text())
        assert lost.read_text().split()[-1] == how
        self.failed = failed_rank(state).words
        return words

    def ends_in(self, seconds: float) -> list[int | None]:
        """The codes of those that have ended so many seconds after they knew of each other."""
        limit = time.monotonic() + 20
        while not (self.folder / "port").exists():
            assert time.monotonic() < limit, "the first rank does not listen"
            time.sleep(0.05)
        time.sleep(seconds)
        return [each.poll() for each in self.started]

    def end(self) -> None:
        for each in self.started:
            each.kill()
            each.communicate()


@pytest.fixture
def ranks(tmp_path):
    made = []

    def start(*does):
        (tmp_path / "train.py").write_text(RANK)
        made.append(Ranks(tmp_path, *does))
        return made[0]

    yield start
    for each in made:
        each.end()


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_rank_that_is_stopped_is_named_with_its_node(ranks, tmp_path, stopped):
    both = ranks((0.01, 0.01), (0.01, 0.01))
    both.slow()
    both.started[stopped].send_signal(signal.SIGSTOP)
    other = both.started[1 - stopped]
    _, words = other.communicate(timeout=15)
    assert other.returncode == 68
    assert f"rank {stopped} on node0{stopped + 1} (10.0.0.{stopped + 1}) was not heard of for 1.5 s" in words
    assert f"from node0{2 - stopped} (10.0.0.{2 - stopped})" in words
    (tmp_path / "failed_rank").write_text((tmp_path / "ranks" / str(1 - stopped) / "lost").read_text())
    assert failed_rank(tmp_path).words.startswith(f"rank {stopped} on node0{stopped + 1} was no longer heard from")


@pytest.mark.parametrize("computes", [0, 1])
def test_a_rank_that_computes_and_comes_to_no_sum_is_given_up_late(ranks, tmp_path, computes):
    both = ranks(*(("computes", "sums") if computes == 0 else ("sums", "computes")))
    words = both.words_of_the_first(tmp_path, "awaited")
    node = f"rank {computes} on node0{computes + 1}"
    assert f"{node} (10.0.0.{computes + 1}) is alive, and all others have waited for it for 3 s" in words
    assert both.failed.startswith(f"{node} was alive, and all others waited")


@pytest.mark.parametrize("hangs", [0, 1])
def test_a_rank_that_does_nothing_is_given_up_soon_with_its_line(ranks, tmp_path, hangs):
    """Its threads say that it is there; all others wait."""
    both = ranks(*(("hangs", "sums") if hangs == 0 else ("sums", "hangs")))
    words = both.words_of_the_first(tmp_path, "stuck")
    line = 1 + RANK.splitlines().index("    threading.Event().wait()")
    assert "no rank has computed, read or written anything for 1.5 s" in words
    assert f"and rank {hangs} is in no sum" in words
    assert f"rank {hangs} on node0{hangs + 1} (10.0.0.{hangs + 1}) is at train.py:{line} in wait" in words
    assert both.failed.startswith(f"rank {hangs} on node0{hangs + 1} was alive but no longer did anything")


def test_ranks_that_wait_for_each_other_are_told_with_their_lines(ranks, tmp_path):
    both = ranks("sums", "sums")
    words = both.words_of_the_first(tmp_path, "crossed")
    line = 1 + RANK.splitlines().index("    pace.waits(threading.Event().wait)")
    assert "all wait for each other in sums" in words
    assert words.count(f"is at train.py:{line} in wait") == 2


@pytest.mark.parametrize("does", ["awaits_another", "writes", (0.4, 0.0)])
def test_a_rank_that_does_anything_is_not_stuck(ranks, does):
    both = ranks((0.0, 30.0) if isinstance(does, tuple) else "sums", does)
    assert both.ends_in(2.8) == [None, None]


@pytest.mark.parametrize("ended", [0, 1])
def test_a_rank_that_has_ended_is_not_awaited(ranks, ended):
    both = ranks((0.01, 0.01), (0.01, 0.01))
    both.slow()
    both.started[ended].kill()
    time.sleep(3)
    assert both.started[1 - ended].poll() is None


def test_a_stop_of_all_is_no_silence(ranks):
    both = ranks((0.01, 0.01), (0.01, 0.01))
    both.slow()
    for each in both.started:
        each.send_signal(signal.SIGSTOP)
    time.sleep(2.5)
    for each in both.started:
        each.send_signal(signal.SIGCONT)
    time.sleep(1.2)
    assert [each.poll() for each in both.started] == [None, None]


def test_the_slow_one_is_the_one_that_does_not_wait(ranks):
    seconds, who = ranks((0.04, 0.36), (0.4, 0.0)).slow()  # long beside the delays of a busy machine
    assert who == [1, "node02 (10.0.0.2)"]
    assert seconds[0] == pytest.approx(0.04, abs=0.08)
    assert seconds[1] == pytest.approx(0.4, rel=0.5)


def test_ranks_that_are_alike_are_not_slow(ranks):
    assert ranks((0.05, 0.05), (0.06, 0.04)).slow()[1] is None


def test_of_a_rank_that_was_never_heard_of_nothing_is_known():
    """Its sums may come through a network that its words do not."""
    ended = []
    first = Alive(0, 3, "node01 (10.0.0.1)", 1.5, Pace(), lambda *words: ended.append(words), None)
    waits = {"own": "node01 (10.0.0.1)", "waits": 2000.0}
    first._look_for_awaited({0: waits, 1: waits})
    assert ended == []


def test_sums_may_wait_for_twice_as_long_as_a_link_was_cut():
    """TCP sends again what was lost after 0.2, 0.4, 0.8 ... 25.6 s: half a minute's cut ends sums' waiting at 51 s."""
    ended = []
    first = Alive(0, 2, "node01 (10.0.0.1)", 45.0, Pace(), lambda *words: ended.append(words), None)

    def looks(idle):
        word = {"own": "node0x", "idle": idle, "sums": True}
        first._look_for_stuck({0: word, 1: word})
        return bool(ended)

    first._watch.heard(1)
    first._watch._silent[1] = 30.0
    first._watch.heard(1)
    assert not looks(51.0)
    assert not looks(1.0)  # they went on, and the next one is another matter
    assert looks(46.0)


@pytest.mark.parametrize(
    ("group", "others", "words"),
    [
        (None, None, "2 processes each train all of it: the script has made no group"),
        (1, None, "2 processes each train all of it: the script has made a group of 1 of them"),
        (2, None, ""),
        (8, None, ""),  # of processes that each of the job's has started
        (None, "horovod", ""),
    ],
)
def test_a_rank_that_trains_without_the_others_is_ended_at_its_second_step(monkeypatch, group, others, words):
    told = {"MODAK_STRATEGY": "", "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "2001"}
    for name, value in (told | {"MODAK_RENDEZVOUS_TIMEOUT": "9"}).items():
        monkeypatch.setenv(name, value)
    hooks = []
    optimizers = SimpleNamespace(register_optimizer_step_pre_hook=hooks.append)
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", optimizers)
    if others:
        monkeypatch.setitem(sys.modules, others, SimpleNamespace())
    distributed = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: group is not None, get_world_size=lambda: group
    )
    watched.imported(SimpleNamespace(distributed=distributed), None)
    step = functools.partial(hooks[0], None, (), {})
    step()  # which may only make an optimizer's state
    with pytest.raises(SystemExit, match=words) if words else contextlib.nullcontext():
        step()
    step()


@pytest.mark.parametrize("number", [0, 1])
def test_processes_that_a_rank_has_started_itself_do_not_await_the_first_of_the_job(monkeypatch, number):
    """Each has the number of the rank that started it in its environment."""
    kept = {} if number == 0 else {"modak/alive": b""}
    store = SimpleNamespace(set=lambda name, value: kept.update({name: value.encode()}), get=kept.__getitem__)
    monkeypatch.setattr(watched.alive, "Alive", None)
    distributed = SimpleNamespace(
        get_world_size=lambda: 2,
        get_rank=lambda: number,
        distributed_c10d=SimpleNamespace(_get_default_store=lambda: store),
    )
    rank = SimpleNamespace(number=1, world=2, address="127.0.0.1", port=2001, timeout=9)
    watched.begin(SimpleNamespace(distributed=distributed), None, rank, Pace())
    assert kept == {"modak/alive": b""}
