"""What is there is not made again, and the controller's sources go along only with what is built."""

from __future__ import annotations

from functools import partial

import pytest

from modak_ansible.deployment.looking import with_other_builds
from modak_ansible.deployment.playbook import PlaybookError
from modak_ansible.errors import FAILED, JOB_FAILED, ModakError
from modak_ansible.planning.service import plan_all
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.stages import image as image_stage
from modak_ansible.stages.image import ensure_image, look_into_image
from modak_ansible.store.lists.refusals import known_refusals
from modak_ansible.store.lists.seen_images import seen_images


def test_an_image_that_is_there_costs_one_look(make_stage, monkeypatch):
    monkeypatch.setattr(image_stage, "package_sources", lambda: 1 / 0)
    asked = []

    def call(name, *, action, **arguments):
        asked.append(action)
        return {"missing": [], "image": {"size": 1}}

    stage, _ = make_stage(call)
    assert not ensure_image(stage).changed
    assert asked == ["look"]


def test_an_image_that_is_missing_is_made_with_the_controllers_sources(make_stage, monkeypatch):
    monkeypatch.setattr(image_stage, "package_sources", lambda apt: {"apt": apt})
    sites = {}

    def call(name, *, action, site, **arguments):
        sites[action] = site
        is_done = action == "wait"
        missing = [] if is_done else ["top"]
        return {"missing": missing, "started": True, "image": {}, "refusal": None, "status": {"state": "done"}}

    stage, said = make_stage(call)
    assert ensure_image(stage).changed
    assert sites["start"]["otherwise"] == {"apt": False}, "nothing of what is missing has Debian's packages"
    assert said == ["making top on the target"]


REFUSAL = {"name": "pytorch-2.13-cpu", "refused": "Illegal instruction", "processor": "Acme 9000", "probed": "2026"}


def refuse(actions, refusal=REFUSAL):
    def call(name, *, action, **arguments):
        actions.append((action, arguments.get("again", False)))
        begins = action == "look" and len(actions) == 1 and not refusal.get("before")
        status = {"state": "failed", "step": "probing", "message": "no"}
        return {
            "missing": ["top"], "started": True, "image": {}, "status": status, "refusal": None if begins else refusal
        }  # fmt: skip

    return call


def test_a_refusal_is_remembered_by_the_project(make_stage, blueprint):
    (blueprint.path / ".modak").mkdir()
    stage, _ = make_stage(refuse([]))
    with pytest.raises(ModakError, match="was refused by its probe on Acme 9000: Illegal instruction") as caught:
        ensure_image(stage)
    assert "modak catalogue build pytorch-2.13-cpu --again" in caught.value.hint
    (known,) = known_refusals(blueprint.path / ".modak")
    assert (known.entry, known.architecture, known.address) == (
        "pytorch-2.13-cpu",
        "skylake_avx512",
        "frontend.example",
    )
    assert (known.processor, known.reason, known.container) == ("Acme 9000", "Illegal instruction", True)


def test_what_was_refused_before_is_not_built(make_stage, blueprint):
    (blueprint.path / ".modak").mkdir()
    actions = []
    stage, _ = make_stage(refuse(actions, {**REFUSAL, "before": True}))
    with pytest.raises(ModakError, match="was refused by its probe"):
        ensure_image(stage)
    assert actions == [("look", False)]
    with pytest.raises(ModakError, match="was refused by its probe"):
        ensure_image(stage, again=True)
    assert ("start", True) in actions


def test_the_users_own_packages_do_not_count_against_the_build(make_stage, blueprint):
    (blueprint.path / ".modak").mkdir()
    stage, _ = make_stage(refuse([], {**REFUSAL, "name": "requirements"}))
    with pytest.raises(ModakError, match="requirements was refused by its probe"):
        ensure_image(stage)
    assert known_refusals(blueprint.path / ".modak") == ()


def test_a_build_without_its_companion_there_gives_way_to_another_one(make_stage, blueprint):
    """What the project remembers has the next plan, which deploy makes at once, take another build."""
    (blueprint.path / ".modak").mkdir()
    blueprint.replace(
        "        script: train/train.py\n",
        "        script: train/train.py\n        requirements_txt: [ torchvision ]\n",
    )
    before = plan_all(blueprint.service, Inputs())
    failed = {
        "state": "failed",
        "step": "building requirements",
        "message": "pip finds no build",
        "lacks": "torchvision",
    }

    def call(name, *, action, **arguments):
        return {"missing": ["requirements"], "started": True, "image": {}, "status": failed, "refusal": None}

    stage, _ = make_stage(call)
    again = partial(plan_all, blueprint.service, Inputs())
    assert with_other_builds(before, PlaybookError("pip finds no build", FAILED), again) == []
    with pytest.raises(ModakError, match="pip finds no build"):
        ensure_image(stage)
    (known,) = known_refusals(blueprint.path / ".modak")
    assert (known.lacks, known.requirements) == ("torchvision==0.28.0+cpu", ("torchvision",))
    assert with_other_builds(before, PlaybookError("the job failed", JOB_FAILED), again) == []
    (fresh,) = with_other_builds(before, PlaybookError("pip finds no build", FAILED), again)
    assert (before[0].plan.image.entry, fresh.plan.image.entry) == ("pytorch-2.13-cpu", "pytorch-2.15-cuda")


def test_nothing_is_remembered_when_nothing_may_change(make_stage, blueprint):
    (blueprint.path / ".modak").mkdir()
    stage, _ = make_stage(refuse([], {**REFUSAL, "before": True}), check=True)
    with pytest.raises(ModakError, match="was refused by its probe"):
        ensure_image(stage)
    assert known_refusals(blueprint.path / ".modak") == ()


@pytest.fixture
def own_image(blueprint):
    """The blueprint with an image of its own, in a project."""
    (blueprint.path / ".modak").mkdir()
    blueprint.replace(
        "    training:\n",
        "    mine:\n      type: modak.nodes.Image\n      properties: { source: /images/mine.sif }\n"
        "      requirements:\n        - host: cluster\n\n    training:\n",
    ).replace("        - dataset: digits\n", "        - dataset: digits\n        - image: mine\n")
    return blueprint


def answering(sha256, **found):
    def call(name, *, action, **arguments):
        if action == "inside":
            return {"inside": {**found, "sha256": sha256}}
        return {"missing": [], "image": {"path": "/images/mine.sif", "given": sha256}}

    return call


def test_an_image_of_ones_own_is_looked_into_and_known_then(own_image, make_stage):
    frameworks = {"pytorch": "2.13.0", "python": "3.11", "mxnet": "built by hand"}
    stage, _ = make_stage(answering("a" * 64, version="3.11", frameworks=frameworks))
    outcome = look_into_image(stage)
    assert outcome.message == "/images/mine.sif: pytorch 2.13.0, python 3.11"
    (seen,) = seen_images(own_image.path / ".modak")
    assert (seen.source, seen.sha256, seen.address) == ("/images/mine.sif", "a" * 64, "frontend.example")
    assert "mxnet" not in seen.frameworks


def test_an_image_that_has_changed_since_is_not_run(own_image, make_stage):
    first, _ = make_stage(answering("a" * 64, version="3.11", frameworks={"pytorch": "2.13.0", "python": "3.11"}))
    look_into_image(first)
    stage, _ = make_stage(answering("b" * 64))
    assert stage.plan["image"]["seen"] == "a" * 64
    with pytest.raises(ModakError, match="is not the image that was inspected") as caught:
        ensure_image(stage)
    assert "deploy again" in caught.value.hint
    assert seen_images(own_image.path / ".modak") == ()
