"""What a rank does with the memory that it frees, by what the node and the job have left for it."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from modak_ansible.runtime import FILES

sys.path.insert(0, str(FILES))

from modak_runtime.free_memory import free_memory
from modak_runtime.parallel import room as rooms

sys.path.remove(str(FILES))

GIB = 1 << 30


@pytest.fixture
def node(tmp_path):
    """Writes what a node's kernel says: MemAvailable, the process's control group, and numbers of groups."""

    def write(available: int | None, group: str, **numbers: str):
        files = {"proc/self/cgroup": group + "\n"}
        if available is not None:
            files["proc/meminfo"] = f"MemTotal: 99 kB\nMemAvailable: {available // 1024} kB\n"
        for name, number in (files | {f"groups/{path}": number for path, number in numbers.items()}).items():
            tmp_path.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
            tmp_path.joinpath(name).write_text(number)
        return free_memory(str(tmp_path / "proc"), str(tmp_path / "groups"))

    return write


def test_a_process_has_what_the_kernel_has_where_nothing_limits_it(node):
    assert node(8 * GIB, "0::/user.slice") == 8 * GIB
    assert node(8 * GIB, "0::/") == 8 * GIB


def test_a_limit_of_its_own_group_counts(node):
    assert node(8 * GIB, "0::/job", **{"job/memory.max": f"{3 * GIB}\n", "job/memory.current": f"{GIB}\n"}) == 2 * GIB


def test_a_limit_of_a_group_around_its_own_counts(node):
    """As Slurm has it: the job's group is limited, and that of the task in it says `max`."""
    groups = {
        "slurm/job_1/memory.max": str(3 * GIB), "slurm/job_1/memory.current": str(GIB),
        "slurm/job_1/step_0/task_0/memory.max": "max", "slurm/job_1/step_0/task_0/memory.current": "7",
    }  # fmt: skip
    assert node(8 * GIB, "0::/slurm/job_1/step_0/task_0", **groups) == 2 * GIB


def test_a_container_with_groups_of_its_own_has_its_limit_at_their_root(node):
    assert node(8 * GIB, "0::/", **{"memory.max": str(GIB), "memory.current": "0"}) == GIB


def test_groups_of_the_first_kind(node):
    groups = {
        "memory/job/memory.limit_in_bytes": str(4 * GIB), "memory/job/memory.usage_in_bytes": str(GIB),
        "memory/job/step/memory.limit_in_bytes": str(2**63 - 4096), "memory/job/step/memory.usage_in_bytes": "0",
    }  # fmt: skip
    assert node(8 * GIB, "9:cpuset:/other\n4:memory:/job/step", **groups) == 3 * GIB


def test_what_is_used_up_leaves_nothing_and_who_says_nothing_is_not_known(node):
    assert node(None, "0::/job") is None
    assert node(8 * GIB, "0::/job", **{"job/memory.max": "5", "job/memory.current": "9"}) == 0


class Optimizer:
    def register_step_post_hook(self, hook):
        self.step = lambda: hook(self, (), {})


@pytest.fixture
def rank(monkeypatch):
    """A rank that has a peak and free memory as it is told, and what it did."""
    said = SimpleNamespace(peak=GIB, free=100 * GIB, done=[])
    for name in ("return_what_is_freed", "keep_what_is_freed", "trim"):
        monkeypatch.setattr(rooms, name, lambda name=name: said.done.append(name.removesuffix("_what_is_freed")))
    monkeypatch.setattr(rooms, "free_memory", lambda: said.free)
    monkeypatch.setattr(rooms, "_peak", lambda: said.peak)

    def begin(**environment: str):
        room, said.optimizer = rooms.room_of({"WORLD_SIZE": "2", **environment}), Optimizer()
        room.follow(said.optimizer)
        return said

    return begin


def test_it_gives_back_until_it_knows_what_it_needs_and_then_keeps(rank):
    said = rank()
    said.optimizer.step()
    assert said.done == ["return"]
    said.optimizer.step()
    said.optimizer.step()
    assert said.done == ["return", "keep"]


def test_it_gives_back_for_good_what_has_become_more_than_it_thought(rank):
    said = rank()
    for peak in (GIB, GIB, 2 * GIB, 2 * GIB + 1, 3 * GIB):
        said.peak = peak
        said.optimizer.step()
    assert said.done == ["return", "keep", "return", "trim"]


@pytest.mark.parametrize(
    ("environment", "free", "keeps"),
    [
        ({}, 4 * GIB, True),  # of two ranks, each of which may come to take as much as twice its peak
        ({}, 4 * GIB - 1, False),
        ({}, None, False),
        ({"LOCAL_WORLD_SIZE": "1"}, 2 * GIB, True),
        ({"MODAK_MEMORY_LIMIT": str(2 * GIB)}, 4 * GIB, True),
        ({"MODAK_MEMORY_LIMIT": str(2 * GIB - 1)}, 4 * GIB, False),
        ({"MODAK_MEMORY_LIMIT": ""}, 4 * GIB, True),
        ({"MODAK_MEMORY_LIMIT": "much"}, 4 * GIB, True),
    ],
)
def test_it_keeps_where_the_node_and_the_job_have_room_for_twice_its_peak(rank, environment, free, keeps):
    said = rank(**environment)
    said.free = free
    said.optimizer.step()
    said.optimizer.step()
    assert said.done == ["return", *["keep"] * keeps]


def test_of_two_optimisers_the_first_makes_its_steps(rank):
    said, other = rank(), Optimizer()
    room = rooms.room_of({"WORLD_SIZE": "2"})
    room.follow(said.optimizer)
    room.follow(other)
    assert not hasattr(other, "step")
