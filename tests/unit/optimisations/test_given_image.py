"""An image of one's own: what looking into it showed to be possible is planned, and nothing else."""

from __future__ import annotations

import pytest

from modak_ansible.deployment.looking import look_first, unseen
from modak_ansible.errors import InvalidBlueprint, ModakError
from modak_ansible.model.measured.seen_image import LOOK, SeenImage
from modak_ansible.model.request import GivenImage
from modak_ansible.planning.service import plan_all, plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.lists.seen_images import forget_image, note_image, seen_images, seen_of

SEEN = SeenImage(
    source="/images/mine.sif", address="frontend.example", python="python3", sha256="a" * 64, version="3.11", glibc="2.36",
    frameworks={"pytorch": "2.13.0+cpu", "python": "3.11"}, compilers=("inductor",),
    preloads={"tcmalloc": "libtcmalloc.so.4"}, libraries=("onednn", "mkl", "libgomp"), packages=("numpy", "PyYAML"), look=LOOK,
)  # fmt: skip
PREFERENCES = "numerics: any, precision: bf16, allocator: tcmalloc, huge_pages: transparent, compiler: inductor"


@pytest.fixture
def mine(blueprint):
    """A blueprint with an image of its own, whose script calls prepare, in a project."""
    (blueprint.path / ".modak").mkdir()
    (blueprint.path / "train" / "train.py").write_text("import modak_runtime\n")
    return blueprint.replace("skylake_avx512", "zen4").replace("numerics: same", PREFERENCES).replace(
        "    training:\n",
        "    mine:\n      type: modak.nodes.Image\n      properties: { source: /images/mine.sif }\n"
        "      requirements:\n        - host: cluster\n\n    training:\n",
    ).replace("        - dataset: digits\n", "        - dataset: digits\n        - image: mine\n")  # fmt: skip


def plan_of(blueprint, *seen):
    for each in seen:
        note_image(blueprint.path / ".modak", each)
    return plan_blueprint(blueprint.service, Inputs()).plan


def values_of(plan):
    return {choice.name: choice.value for choice in plan.choices}


def test_what_was_found_in_it_is_planned(mine):
    plan = plan_of(mine, SEEN)
    assert plan.notes == ()
    found = values_of(plan)
    names = ("precision", "allocator", "huge_pages", "compiler")
    assert [found[name] for name in names] == ["bf16", "tcmalloc", "transparent", "inductor"]
    assert plan.job.environment["LD_PRELOAD"] == "libtcmalloc.so.4"
    assert plan.image.seen == SEEN.sha256
    assert [layer.kind for layer in plan.image.layers] == ["file"]
    assert "pytorch 2.13.0+cpu" in next(each.reason for each in plan.choices if each.name == "image")


def test_what_was_not_found_is_not(mine):
    plan = plan_of(mine, SEEN.model_copy(update={"compilers": (), "preloads": {}, "glibc": "2.31"}))
    assert sorted(note.path.rpartition(".")[2] for note in plan.notes) == ["allocator", "compiler"]
    old = plan_of(mine, SEEN.model_copy(update={"version": "3.7"}))
    assert "its Python is too old for modak's code" in " ".join(note.reason for note in old.notes)


def test_before_it_was_looked_into_nothing_is_claimed_and_nothing_refused(mine):
    mine.replace("numerics: any", "strict: true, numerics: any")
    plan = plan_of(mine)
    assert len(plan.notes) == 4
    assert all("the given image has not been inspected yet" in note.reason for note in plan.notes)
    assert plan.image.seen == ""


def test_once_it_was_a_preference_that_cannot_be_kept_may_be_a_mistake(mine):
    mine.replace("numerics: any", "strict: true, numerics: any")
    with pytest.raises(InvalidBlueprint, match="image-aaaaaaaaaaaa does not include it"):
        plan_of(mine, SEEN.model_copy(update={"preloads": {}}))


@pytest.mark.parametrize(
    ("frameworks", "version", "words"),
    [
        ({"tensorflow": "2.21.0"}, "", r"/images/mine.sif has no pytorch: it has tensorflow 2.21.0"),
        ({"pytorch": "2.13.0"}, "2.12", r"/images/mine.sif has pytorch 2.13.0, not 2.12"),
    ],
)
def test_another_framework_or_version_is_said_before_anything_runs(mine, frameworks, version, words):
    if version:
        mine.replace("framework: pytorch", f'framework: pytorch\n        version: "{version}"')
    with pytest.raises(InvalidBlueprint, match=words):
        plan_of(mine, SEEN.model_copy(update={"frameworks": frameworks}))


def test_what_its_process_has_not_got_is_not_planned(mine):
    mine.replace("numerics: any", "matmul: onednn, wait_policy: passive, threads: 2, numerics: any")
    found = values_of(plan_of(mine, SEEN))
    assert (found["matmul"], found["wait_policy"]) == ("onednn", "passive")
    bare = plan_of(mine, SEEN.model_copy(update={"libraries": ()}))
    reasons = {note.path.rpartition(".")[2]: note.reason for note in bare.notes}
    assert "the image's PyTorch has no oneDNN" in reasons["matmul"]
    assert "the image has no OpenMP" in reasons["wait_policy"]


def test_an_allocator_under_another_name_is_loaded_by_it(mine):
    mine.replace("allocator: tcmalloc", "allocator: jemalloc")
    library = "/opt/conda/lib/libjemalloc.so.2"
    plan = plan_of(mine, SEEN.model_copy(update={"preloads": {"jemalloc": library}}))
    assert plan.job.environment["LD_PRELOAD"] == library


def test_it_is_tuned_with_what_the_tuner_needs_and_it_has_not_got(mine):
    mine.replace("numerics: any", "autotuning: true, numerics: any")
    mine.replace("precision: bf16, allocator: tcmalloc, huge_pages: transparent, compiler: inductor", "matmul: any")
    plan = plan_of(mine, SEEN)
    assert plan.tuning is not None
    assert [layer.kind for layer in plan.image.layers] == ["file", "build"]
    assert "optuna==5.0.0" in plan.image.definition
    assert "pyyaml==" not in plan.image.definition.lower()
    assert "numpy==" not in plan.image.definition


def test_a_look_for_less_than_counts_today_is_done_again(mine):
    assert plan_of(mine, SEEN.model_copy(update={"look": 1})).image.seen == ""


def test_what_could_not_be_looked_into_is_taken_as_it_is(mine):
    bare = {"source": SEEN.source, "address": SEEN.address, "python": SEEN.python, "sha256": SEEN.sha256}
    plan = plan_of(mine, SeenImage(**bare, problem="no python3", look=LOOK))
    assert all("could not be inspected: no python3" in note.reason for note in plan.notes)
    assert len(plan.notes) == 4


def test_what_is_known_is_of_one_content_on_one_target(tmp_path):
    note_image(tmp_path, SEEN.model_copy(update={"sha256": "b" * 64}))
    note_image(tmp_path, SEEN)
    note_image(tmp_path, SEEN.model_copy(update={"address": "other.example"}))
    known = seen_images(tmp_path)
    assert len(known) == 2
    image = GivenImage(source=SEEN.source)
    assert seen_of(known, image, SEEN.address) == SEEN
    assert seen_of(known, image, "third.example") is None
    assert seen_of(known, image.model_copy(update={"checksum": "b" * 64}), SEEN.address) is None
    assert seen_of(known, image.model_copy(update={"python": "/opt/python"}), SEEN.address) is None
    forget_image(tmp_path, SEEN.source, SEEN.python, SEEN.address)
    assert len(seen_images(tmp_path)) == 1
    (tmp_path / "images.json").write_text("{")
    with pytest.raises(ModakError, match="cannot be read"):
        seen_images(tmp_path)


def test_each_image_is_looked_into_once_and_then_planned_with(mine, monkeypatch):
    from modak_ansible.deployment import looking

    mine.replace("script: train/train.py", "script: train/train.py\n        sweep: { epochs: [ 1, 2 ] }")
    asked = []

    def run_playbook(name, variables, listener, deadline=None):
        asked.append((name, variables["image_inside"]))
        note_image(mine.path / ".modak", SEEN)

    monkeypatch.setattr(looking, "run_playbook", run_playbook)
    before = plan_all(mine.service, Inputs())
    assert len(unseen(before)) == 1
    after = look_first(before, lambda: plan_all(mine.service, Inputs()))
    assert asked == [("image", True)]
    assert [planned.plan.image.seen for planned in after] == [SEEN.sha256] * 2
    assert unseen(after) == []
