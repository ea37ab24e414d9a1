"""Ranks that have fewer cores between them than threads are named, by what each noted of its cores."""

from __future__ import annotations

import pytest

from modak_ansible.target.jobs.progress import crowded, progress_of

CASES = [
    ({0: "node01 2 0-1", 1: "node01 2 2,3"}, ""),
    # nobody bound them, and there are enough for all
    ({0: "node01 2 0-3", 1: "node01 2 0-3"}, ""),
    # the same cores on another node are others
    ({0: "node01 1 0", 1: "node02 1 0"}, ""),
    (
        {0: "node01 1 0", 1: "node01 1 0", 2: "node01 1 1"},
        "ranks 0, 1 on node01 have core 0 for 2 threads, which wait for each other",
    ),
    ({0: "node01 4 0-1"}, "rank 0 on node01 has cores 0, 1 for 4 threads, which wait for each other"),
    # one of them is bound within what the other one has
    ({0: "n 2 0-1", 1: "n 1 1"}, "ranks 0, 1 on n have cores 0, 1 for 3 threads, which wait for each other"),
    ({3: "node02 2 4,6-7", 4: "node02 2 4,6-7"}, "ranks 3, 4 on node02 have cores 4, 6, 7 for 4 threads, which wait for each other"),
    # what nobody wrote so
    ({0: "node01 9", 1: "", 2: "node01 x 0", 3: "node01 2 0-", 4: "node01 2 99999999-1"}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("noted", "said"), CASES)
def test_who_has_too_few_is_named(tmp_path, noted, said):
    cores = tmp_path / "state" / "cores"
    cores.mkdir(parents=True)
    for rank, words in noted.items():
        (cores / str(rank)).write_text(words + "\n")
    (cores / "other").write_text("node01 9 0\n")
    assert crowded(cores) == said
    assert progress_of(tmp_path).get("crowded", "") == said


def test_a_job_of_one_process_notes_nothing(tmp_path):
    assert crowded(tmp_path / "state" / "cores") == ""
