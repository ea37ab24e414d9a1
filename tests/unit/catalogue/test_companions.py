"""Which packages of a user's go with which builds, as far as it is known before anything is built."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from modak_ansible.catalogue import load_catalogue
from modak_ansible.catalogue.companions import aliases_of, collision, constraints_of, tries_of
from modak_ansible.catalogue.locks import lock_of
from modak_ansible.errors import InvalidBlueprint
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.forms.text_rules import requirement_problem
from modak_ansible.reading.blueprint.reader import Inputs

ENTRIES = {entry.name: entry for entry in load_catalogue().entries}
TORCH, CUDA, OLD = (ENTRIES[f"pytorch-{name}"] for name in ("2.13-cpu", "2.13-cuda", "1.4-hub"))
TENSORFLOW, JAX = ENTRIES["tensorflow-2.21-cpu"], ENTRIES["keras-3.15-jax-cpu"]


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_constraints_are_what_pip_reads(entry):
    for constraint in constraints_of(entry):
        assert len(Requirement(constraint).specifier) == 1
    for code in tries_of(entry).values():
        ast.parse(code)


def test_companions_are_of_the_build_of_their_framework():
    assert {"torchvision==0.28.0+cpu", "torchtext<0"} <= set(constraints_of(TORCH))
    assert "torchvision==0.28.0" in constraints_of(CUDA)
    assert "torchvision==0.5.0" in constraints_of(OLD)
    assert {"tensorflow-intel<0", "tf-nightly<0"} <= set(constraints_of(TENSORFLOW))
    assert "tensorflow-intel<0" not in constraints_of(JAX)


def test_a_framework_is_known_by_its_first_name():
    assert aliases_of(TENSORFLOW) == {"tensorflow": "2.21.0"}
    assert aliases_of(TORCH) == aliases_of(JAX) == {}
    assert "tensorflow<0" not in constraints_of(TENSORFLOW)


@pytest.mark.parametrize(
    ("entry", "line", "said"),
    [
        (TORCH, "torch==2.5.0", "torch==2.5.0 is asked for, and pytorch-2.13-cpu has torch 2.13.0+cpu"),
        (TORCH, "Torch [opt-einsum] < 2.13", "and pytorch-2.13-cpu has torch 2.13.0+cpu"),
        (TORCH, "torch==2.13.0+cu130", "and pytorch-2.13-cpu has torch 2.13.0+cpu"),
        (TORCH, "numpy~=1.26", "and pytorch-2.13-cpu has numpy 2.4.6"),
        (TORCH, f"numpy==1.26.4 --hash=sha256:{'0' * 64}", "numpy==1.26.4 is asked for"),
        (TORCH, 'numpy<2 ; python_version >= "3.11"', "and pytorch-2.13-cpu has numpy 2.4.6"),
        (TORCH, "torchvision<0.28", "torch 2.13.0+cpu of pytorch-2.13-cpu needs torchvision 0.28.0+cpu"),
        (TORCH, "torchtext", "torchtext has no release for torch 2.13.0+cpu"),
        (OLD, "torch==1.5", "pytorch-1.4-hub has torch 1.4.0"),
        (TENSORFLOW, "tensorflow==2.19.*", "and tensorflow-2.21-cpu has tensorflow 2.21.0"),
        (TENSORFLOW, "tensorflow-intel", "tensorflow-intel would replace tensorflow-cpu 2.21.0"),
        (
            TENSORFLOW,
            "tensorflow_text==2.20",
            "tensorflow-cpu 2.21.0 of tensorflow-2.21-cpu needs tensorflow-text",
        ),
    ],
)
def test_what_collides_is_told(entry, line, said):
    assert requirement_problem(line) == ""
    found = collision(entry, line, "3.11")
    assert said in found.message
    assert found.hint


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (TORCH, "torch"), (TORCH, "torch>=2,<3"), (TORCH, "torch==2.13.0"), (TORCH, "torch==2.13.*"), (TORCH, "einops==0.8.1"),
        (TORCH, "torchvision"), (TORCH, "torchvision==0.28.0"), (TORCH, 'numpy<2 ; python_version < "3.8"'),
        (TORCH, 'torch==2.5 ; sys_platform == "win32"'), (TENSORFLOW, "tensorflow-cpu==2.21.0"), (JAX, "keras-hub"),
        (TENSORFLOW, "tensorflow"), (TENSORFLOW, "tensorflow>=2.20,<3"), (TENSORFLOW, "Keras.Hub"), (TENSORFLOW, "tf-keras"),
        (TENSORFLOW, "tensorflow-text"),
        (OLD, 'torch==1.5 ; python_version < "3"'),
    ],
)  # fmt: skip
def test_what_goes_together_is_not(entry, line):
    assert collision(entry, line, "" if entry is OLD else "3.11") is None


@pytest.mark.parametrize(
    "entry", [entry for entry in ENTRIES.values() if entry.requirements], ids=lambda each: each.name
)
def test_what_an_entry_has_goes_with_it(entry):
    for line in lock_of(entry.name).lines:
        assert collision(entry, line, "3.11") is None


@given(st.from_regex(r"(torch|numpy|torchvision|a-b)(\[x\])? ?((==|>=|<|~=|!=)[0-9]\.[0-9]{1,2})?", fullmatch=True))
def test_every_requirement_is_judged(line):
    if requirement_problem(line) == "":
        found = collision(TORCH, line, "3.11")
        assert found is None or (found.message and found.hint)


def test_it_is_told_where_it_stands(blueprint):
    blueprint.replace(
        "        script: train/train.py\n",
        "        script: train/train.py\n        requirements_txt:\n          - einops\n          - torch==2.5.0\n",
    )
    with pytest.raises(InvalidBlueprint, match=r"service\.yaml:41:13: cannot-plan: torch==2\.5\.0 is asked for"):
        plan_blueprint(blueprint.service, Inputs())


def test_of_a_release_that_nobody_has_listed_pip_finds_the_companions():
    newer = OLD.model_copy(update={"version": "2.99.0"})
    assert constraints_of(newer) == ()
    assert collision(newer, "torchvision", "3.11") is None
