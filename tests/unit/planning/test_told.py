"""What the job of a script that torchrun would start says to its one process."""

from __future__ import annotations

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.store.targets import target_file

SCRIPT = "import os\nimport torch.distributed as dist\nrank = int(os.environ['LOCAL_RANK'])\ndist.init_process_group('gloo')\n"
SPAWN = (
    "import torch.distributed as dist, torch.multiprocessing as mp\n"
    "def work(rank): dist.init_process_group('gloo', rank=rank, world_size=2)\nmp.spawn(work, nprocs=2)\n"
)


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """The plan of a script alone on a cluster, with some processes on each of its nodes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "env"))
    (tmp_path / "env").mkdir()
    (tmp_path / "there.yaml").write_text("scheduler: slurm\nfrontend: login.example\n")

    def go(text, processes=None):
        (tmp_path / "train.py").write_text(text)
        inputs = Inputs(targets=target_file("./there.yaml"), processes_per_node=processes)
        return plan_blueprint(tmp_path / "train.py", inputs).plan

    return go


def test_one_process_is_told_that_it_is_alone_and_ranks_are_told_by_the_script(planned):
    alone = planned(SCRIPT).job
    assert {name: alone.environment[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")} == {
        "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1",
    }  # fmt: skip
    assert "    LOCAL_RANK=0\n" in alone.script
    assert "RANK" not in planned("import torch\ntorch.nn.Linear(1, 1)\n").job.environment
    assert "RANK" not in planned(SCRIPT, processes=2).job.environment


def test_a_script_that_starts_its_processes_is_one_process(planned):
    assert "RANK" not in planned(SPAWN).job.environment
    with pytest.raises(ModakError, match=r"train.py starts its processes itself: torch.multiprocessing.spawn"):
        planned(SPAWN, processes=2)
