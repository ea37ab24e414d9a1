"""Nodes, processes and cores out of the several ways to ask for them."""

from __future__ import annotations

import pytest

from modak_ansible.reading.blueprint.job_options import JobOptionsForm
from modak_ansible.reading.requests.application.shape import ShapeProblem, shape_of


def shape(options, warnings=None, **given):
    form = JobOptionsForm.model_validate(options)
    facts = {"ranks": None, "threads": None, "parallel": True, "subscription": 1, "node_cores": 8, **given}
    told = warnings if warnings is not None else []
    found = shape_of(
        form, warn=lambda *words: told.append(words), cannot_keep=lambda *words: told.append(words), **facts
    )
    return found.nodes, found.processes_per_node, found.cores


N, P, C, E = "node_count", "process_count_per_node", "core_count", "core_count_per_process"


@pytest.mark.parametrize(
    ("options", "given", "expected"),
    [
        ({}, {}, (1, 1, None)),
        ({N: 2, P: 4}, {}, (2, 4, None)),
        ({N: 2, P: 4, C: 8, E: 2}, {}, (2, 4, 2)),
        ({C: 16}, {}, (2, 8, None)),
        ({C: 9}, {}, (3, 3, None)),
        ({C: 16}, {"node_cores": None}, (1, 16, None)),
        ({C: 16, N: 4}, {}, (4, 4, None)),
        ({C: 16, P: 4}, {}, (4, 4, None)),
        ({N: 4}, {"ranks": 16}, (4, 4, None)),
        ({}, {"ranks": 16}, (2, 8, None)),
        ({N: 2, P: 8}, {"ranks": 4}, (2, 2, 4)),
        ({N: 2, P: 8}, {"ranks": 4, "threads": 4}, (2, 2, 4)),
        ({N: 4, P: 1}, {"ranks": 4, "threads": 2}, (4, 1, 2)),
        ({P: 40}, {"parallel": False}, (1, 1, 40)),
        ({N: 1, P: 4}, {"ranks": 8, "subscription": 2}, (1, 8, None)),
        # core_count besides both others: of the job where that comes out even, else of each node
        ({N: 2, P: 40, C: 40}, {"ranks": 80}, (2, 40, 1)),
        ({N: 2, P: 40, C: 40}, {"ranks": 40}, (2, 20, 2)),
        ({N: 4, P: 10, C: 20}, {}, (4, 10, 2)),
        ({N: 2, P: 4, C: 16}, {}, (2, 4, 2)),
        ({N: 1, P: 40, C: 40}, {"parallel": False}, (1, 1, 40)),
        ({N: 1, C: 40}, {"parallel": False}, (1, 1, 40)),
        ({N: 2, C: 40}, {"ranks": 80}, (2, 40, None)),
        ({N: 2, C: 9}, {}, (2, 9, None)),
        # mpi_ranks is the most
        ({N: 2, P: 1}, {"ranks": 80}, (2, 1, None)),
        ({E: 2}, {"threads": 3}, (1, 1, 2)),
    ],
)
def test_shapes(options, given, expected):
    assert shape(options, **given) == expected


@pytest.mark.parametrize(
    ("options", "given", "field", "said"),
    [
        ({N: 4, P: 24, C: 12}, {}, C, "4 nodes x 24 processes are 96, not 12"),
        ({N: 2, P: 40, C: 40, E: 2}, {}, C, "2 nodes x 40 processes x 2 cores are 160, not 40"),
        ({C: 9, P: 2}, {}, C, "9 is not a multiple of process_count_per_node, 2"),
        ({N: 2, P: 2}, {"ranks": 3}, "mpi_ranks", "cannot be spread evenly over 2 nodes"),
        ({N: 1, P: 4}, {"ranks": 3}, "mpi_ranks", "3 processes of a node cannot share 4 places evenly"),
        ({N: 2, P: 2}, {"parallel": False}, N, "1 process cannot be spread evenly over 2 nodes"),
    ],
)
def test_contradictions(options, given, field, said):
    with pytest.raises(ShapeProblem, match=said) as caught:
        shape(options, **given)
    assert caught.value.path[-1] == field


def test_what_is_not_taken_literally_is_told():
    warnings = []
    shape({N: 1, P: 40}, warnings, parallel=False)
    assert warnings[0][1:] == (
        "1 of 40 processes run: each gets 40 cores",
        "process_count_per_node: 1, core_count_per_process: 40 says the same",
    )
