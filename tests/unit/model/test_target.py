"""What a target says of its accelerators, be it none or nothing."""

from __future__ import annotations

import pytest

from modak_ansible.model.target import Accelerator, Partition, Scheduler, Target
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.reading.blueprint.reader import read_targets

TWO = (Partition(name="batch", accelerators=0), Partition(name="gpu", accelerators=4))


@pytest.mark.parametrize(
    ("accelerator", "partitions", "has"),
    [
        (Accelerator(), (), None), (Accelerator(count=0), (), False), (Accelerator(count=2), (), True),
        (Accelerator(), TWO, True), (Accelerator(), TWO[:1], False), (Accelerator(count=2), TWO[:1], False),
        (Accelerator(vendor="nvidia"), (Partition(name="batch"),), None),
        (Accelerator(count=1), (Partition(name="batch"),), True),
    ],
)  # fmt: skip
def test_none_is_told_from_not_known(accelerator, partitions, has):
    target = Target(name="x", scheduler=Scheduler.SLURM, accelerator=accelerator, partitions=partitions)
    assert target.has_accelerators is has


@pytest.mark.parametrize(
    ("line", "has"), [("", None), ("accelerator: { count: 0 }", False), ("accelerator: { count: 1 }", True)]
)
def test_a_target_file_says_none_or_nothing(tmp_path, line, has):
    path, mistakes = tmp_path / "site.yaml", Mistakes()
    path.write_text(f"scheduler: slurm\nfrontend: login.example\n{line}\n")
    (target,) = read_targets(path, Inputs(), mistakes).values()
    assert not list(mistakes)
    assert (target.has_accelerators, target.accelerator.count) == (has, int(bool(has)))
