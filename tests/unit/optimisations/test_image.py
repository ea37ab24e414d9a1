"""Which build is taken, on its own and when it is named."""

from __future__ import annotations

import pytest

from modak_ansible.catalogue import Base, Catalogue, Entry
from modak_ansible.errors import CannotPlan
from modak_ansible.model.measured.refusal import Refusal
from modak_ansible.model.plan import digest_of
from modak_ansible.model.target import Accelerator, Site
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import request_of
from modak_ansible.reading.blueprint.reader import Inputs


def base(name, python):
    return Base(name=name, suite="trixie", docker="debian:13", python=python, packages=("python3",), licence="DFSG")


def entry(name, version, **fields):
    said = {"framework": "pytorch", "origin": "pip", "architectures": ("x86_64",), "base": "new", "probe": "1 / 1"}
    return Entry(name=name, version=version, provenance="the project", licence="BSD", **{**said, **fields})


NEW = entry("torch-2.13", "2.13.0", allocators=("tcmalloc",))
OLD = entry("torch-1.4", "1.4.0", base="old")
OPT = entry("torch-2.13-opt", "2.13.0", origin="opt-build", environment={"LD_PRELOAD": "libblas.so.3", "A": "1"},
            allocators=("tcmalloc",))  # fmt: skip
HUB = entry("torch-2.14-hub", "2.14.0", origin="hub", base="", source="docker://torch/torch:2.14", python="python3")
UNTRIED = entry("torch-3-glow", "3.0", untried="its sources are not to be had")
CHOOSY = entry("torch-2.15-avx", "2.15.0", features=("avx512f",), refusals={"zen4": "Illegal instruction"})


@pytest.fixture
def decide(blueprint):
    """The choice of the image and the plan for a request that differs from the example's."""
    request = request_of(blueprint.service, Inputs())

    def plan(
        *entries,
        refusals=(),
        architecture="x86_64",
        target=None,
        accelerators=0,
        version="",
        packages=(),
        **preferences,
    ):
        processor = request.target.processor.model_copy(update={"architecture": architecture})
        update = {
            "application": request.application.model_copy(update={"version": version, "requirements": packages}),
            "optimisation": request.optimisation.model_copy(update=preferences),
            "resources": request.resources.model_copy(update={"accelerators": accelerators}),
            "target": request.target.model_copy(update={"processor": processor, **(target or {})}),
        }
        catalogue = Catalogue(
            entries=entries, bases={"new": base("new", "3.13"), "old": base("old", "2.7")}, datasets={}
        )
        made = make_plan(request.model_copy(update=update), catalogue, refusals)
        return next(choice for choice in made.choices if choice.name == "image"), made

    return plan


ALL = (NEW, OLD, OPT, HUB, UNTRIED)
DOCKER = {"image_base": "docker"}
GPU = {"partitions": (), "accelerator": Accelerator(vendor="nvidia", count=1)}


def rejected(choice):
    return {rejected.value: rejected.reason for rejected in choice.rejected}


@pytest.mark.parametrize("target", [{}, DOCKER, {"container_runtime": "none"}])
def test_nobody_gets_what_is_special_without_asking(decide, target):
    assert decide(*ALL, target=target)[0].value == "torch-2.13"


def test_the_others_are_named_with_their_reasons(decide):
    choice, _ = decide(*ALL)
    assert rejected(choice) == {
        "torch-3-glow": "it is untested (its sources are not to be had); optimisation.entry selects it",
        "torch-2.14-hub": "the target cannot reach a hub",
        "torch-1.4": "its Python is 2.7; its version, or optimisation.entry, selects it",
        "torch-2.13-opt": "torch-2.13 is a build of pip; build: opt-build selects this one",
    }


@pytest.mark.parametrize(
    ("preferences", "name"),
    [
        ({"version": "1.4"}, "torch-1.4"),
        ({"build": "opt-build"}, "torch-2.13-opt"),
        ({"build": "hub", "target": DOCKER}, "torch-2.14-hub"),
        ({"version": ">=2.14", "target": DOCKER}, "torch-2.14-hub"),
        *(({"entry": each.name, "target": DOCKER}, each.name) for each in ALL),
    ],
)
def test_what_is_asked_for_is_taken(decide, preferences, name):
    assert decide(*ALL, **preferences)[0].value == name


def test_a_build_of_old_that_has_no_successor_is_taken(decide):
    assert decide(OLD)[0].value == "torch-1.4"


@pytest.mark.parametrize(
    ("preferences", "reason"),
    [
        ({"entry": "torch-2.31"}, "the catalogue has no entry torch-2.31"),
        ({"entry": "mxnet-1.6"}, "mxnet-1.6 is a build of mxnet, not of pytorch"),
        ({"entry": "torch-1.4", "version": "2.13"}, "torch-1.4 cannot be taken: version 1.4.0 is not 2.13"),
        ({"entry": "torch-1.4", "build": "hub"}, "its build is pip, and hub is asked for"),
        ({"entry": "torch-1.4", "accelerators": 1, "target": GPU}, "it uses no accelerator"),
        ({"entry": "torch-1.4", "architecture": "aarch64"}, "it needs x86_64, and the processor is aarch64"),
        ({"entry": "torch-2.14-hub"}, "the target cannot reach a hub"),
        ({"entry": "torch-2.14-hub", "target": {"container_runtime": "none"}}, "it needs a container runtime"),
        (
            {"entry": "torch-1.4", "target": {"container_runtime": "none"}},
            "its Python is too old for a virtual environment",
        ),
        ({"entry": "torch-2.15-avx"}, "it needs avx512f, which x86_64 lacks"),
        ({"entry": "torch-2.15-avx", "architecture": "zen5"}, "its probe fails on zen4: Illegal instruction"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_reason(decide, preferences, reason):
    mxnet = entry("mxnet-1.6", "1.6.0", framework="mxnet")
    with pytest.raises(CannotPlan) as caught:
        decide(*ALL, CHOOSY, mxnet, **preferences)
    assert reason in caught.value.message
    assert caught.value.about == "optimisation.entry"


def test_a_framework_that_the_catalogue_has_not(decide):
    with pytest.raises(CannotPlan, match="the catalogue has no pytorch") as caught:
        decide(entry("mxnet-1.6", "1.6.0", framework="mxnet"))
    assert (caught.value.about, caught.value.hint) == ("framework", "it has mxnet")


def test_an_unknown_entry_has_a_near_one(decide):
    with pytest.raises(CannotPlan) as caught:
        decide(*ALL, entry="torch-2.31")
    assert caught.value.hint == "did you mean torch-2.13?"


def test_an_entry_and_an_image_are_one_too_many(blueprint):
    blueprint.replace("numerics: same", "entry: pytorch-2.13-cpu").replace(
        "    training:\n",
        "    mine:\n      type: modak.nodes.Image\n      properties: { source: 'docker://acme/torch:1' }\n"
        "      requirements:\n        - host: cluster\n\n    training:\n",
    ).replace("        - dataset: digits\n", "        - dataset: digits\n        - image: mine\n")
    with pytest.raises(CannotPlan, match="has an image of its own"):
        make_plan(request_of(blueprint.service, Inputs()))


def test_a_processor_with_the_feature_is_served(decide):
    assert decide(NEW, CHOOSY, architecture="skylake_avx512")[0].value == "torch-2.15-avx"


def test_a_hub_image_is_pulled_and_tried(decide):
    _, made = decide(*ALL, entry="torch-2.14-hub", target=DOCKER)
    (layer,) = made.image.layers
    assert (layer.name, layer.kind, layer.source) == ("torch-2.14-hub", "pull", "docker://torch/torch:2.14")
    assert layer.probe == ("python3", "-c", "1 / 1")
    assert made.image.entry == "torch-2.14-hub"
    assert made.image.python == "python3"


def test_what_a_build_preloads_stands_beside_the_allocator(decide):
    _, made = decide(*ALL, entry="torch-2.13-opt", allocator="tcmalloc")
    assert made.job.environment["LD_PRELOAD"] == "libblas.so.3:libtcmalloc_minimal.so.4"
    assert made.job.environment["A"] == "1"
    _, made = decide(*ALL, entry="torch-2.13-opt", allocator="system")
    assert made.job.environment["LD_PRELOAD"] == "libblas.so.3"


# --- refusals


def refusal(of, **fields):
    said = {"architecture": "x86_64", "address": "frontend.example", "processor": "Acme 9000", "reason": "it crashed"}
    return Refusal(entry=of.name, entry_digest=of.digest, date="2026-11-21T13:00:00Z", **{**said, **fields})


def test_a_build_that_failed_its_probe_is_not_taken_again(decide):
    choice, _ = decide(NEW, OPT, refusals=[refusal(NEW)])
    assert choice.value == "torch-2.13-opt"
    assert rejected(choice) == {"torch-2.13": "its probe failed on Acme 9000: it crashed"}
    with pytest.raises(CannotPlan, match="torch-2.13 cannot be taken: its probe failed on Acme 9000: it crashed"):
        decide(NEW, refusals=[refusal(NEW)], entry="torch-2.13")


def test_a_build_of_old_does_not_take_the_place_of_a_refused_one(decide):
    with pytest.raises(CannotPlan, match="its probe failed on Acme 9000") as caught:
        decide(NEW, OLD, refusals=[refusal(NEW)])
    assert "its Python is 2.7" in caught.value.message


@pytest.mark.parametrize(
    "other", [{"address": "elsewhere.example"}, {"architecture": "zen5"}, {"entry_digest": "f" * 64}]
)
def test_a_refusal_is_of_one_build_on_one_target(decide, other):
    known = refusal(NEW).model_copy(update=other)
    assert decide(NEW, refusals=[known])[0].value == "torch-2.13"


@pytest.mark.parametrize("runtime", ["none", "apptainer"])
def test_what_an_environment_lacks_on_a_host_an_image_may_have(decide, runtime):
    """And the other way round; what was noted before it was told apart holds for both."""
    target = {"container_runtime": runtime}
    other, same = (refusal(NEW, container=is_image) for is_image in (runtime == "none", runtime != "none"))
    assert decide(NEW, target=target, refusals=[other])[0].value == "torch-2.13"
    for known in (same, refusal(NEW)):
        with pytest.raises(CannotPlan, match="torch-2.13 cannot be taken: its probe failed on Acme 9000"):
            decide(NEW, target=target, refusals=[known], entry="torch-2.13")


def test_an_earlier_release_of_the_same_build_has_to_be_asked_for(blueprint):
    blueprint.replace("framework: pytorch", "framework: jax")
    plan = make_plan(request_of(blueprint.service, Inputs()))
    assert plan.image.entry == "jax-0.12-cpu"
    image = next(choice for choice in plan.choices if choice.name == "image")
    reasons = {each.value: each.reason for each in image.rejected}
    assert reasons["jax-0.9-cpu"] == "jax-0.12-cpu is newer; its version, or optimisation.entry, selects this one"
    blueprint.replace("framework: jax", 'framework: jax\n        version: "0.8"')
    assert make_plan(request_of(blueprint.service, Inputs())).image.entry == "jax-0.8-cpu"


# --- packages, and what belongs to a framework


@pytest.fixture
def shipped(blueprint):
    """The build that a plan of the shipped catalogue takes for packages, and why not the others."""
    request = request_of(blueprint.service, Inputs())

    def plan(*packages, version="", accelerators=0, refusals=(), target=None):
        update = {
            "application": request.application.model_copy(update={"version": version, "requirements": packages}),
            "resources": request.resources.model_copy(update={"accelerators": accelerators}),
            "target": request.target.model_copy(update=target or {}),
        }
        made = make_plan(request.model_copy(update=update), refusals=refusals)
        return made.image.entry, rejected(next(each for each in made.choices if each.name == "image"))

    return plan


def lack(site=None, **fields):
    site = Site(**site or {}).model_dump(mode="json")
    said = {"lacks": "torchvision==0.28.0+cpu", "requirements": ("torchvision",), "site": digest_of(site)}
    return refusal(NEW, **{**said, **fields})


def test_a_build_for_accelerators_serves_where_there_is_no_smaller_one(shipped):
    entry, others = shipped("torchvision")
    assert entry == "pytorch-2.13-cpu"
    assert others["pytorch-2.15-cuda"].startswith("it includes what an accelerator needs, and the job asks for none")
    assert shipped(version="2.14")[0] == "pytorch-2.14-cuda"
    entry, others = shipped("torchvision", refusals=[lack()])
    assert entry == "pytorch-2.15-cuda"
    assert others["pytorch-2.13-cpu"] == "no index there has torchvision==0.28.0+cpu, which belongs to it"
    assert others["pytorch-2.13-cpu-opt"] == others["pytorch-2.13-cpu"], "of the same release"


@pytest.mark.parametrize(
    ("packages", "known"),
    [
        ((), lack()),
        (("einops",), lack()),
        (("torchvision",), lack(requirements=("timm", "torchvision"))),
        (("torchvision",), lack(site={"pip_index_url": "https://elsewhere.example/simple"})),
        (("torchvision",), lack(address="elsewhere.example")),
    ],
)
def test_a_missing_companion_counts_for_the_same_packages_and_the_same_site(shipped, packages, known):
    assert shipped(*packages, refusals=[known])[0] == "pytorch-2.13-cpu"


def test_the_release_is_taken_that_the_packages_go_with(shipped):
    entry, others = shipped("torchvision==0.29.2")
    assert entry == "pytorch-2.15-cuda"
    assert others["pytorch-2.13-cpu"].endswith("torch 2.13.0+cpu of pytorch-2.13-cpu needs torchvision 0.28.0+cpu")
    with pytest.raises(CannotPlan, match="tensorflow|torchtext") as caught:
        shipped("torchtext")
    assert caught.value.about == "requirements_txt.0"
    with pytest.raises(CannotPlan, match="pytorch-2.13-cpu has numpy"):  # which would have been taken, and no other
        shipped("numpy<2")


HOROVOD = entry("torch-2.12-horovod", "2.12.0", origin="opt-build", libraries=("horovod",), brings=("horovod",))


def test_what_pip_cannot_compile_beside_a_framework_is_taken_from_the_build_that_has_it(decide):
    """Horovod goes with no framework of today: pip would fail to compile it, after minutes."""
    choice, made = decide(NEW, HOROVOD, packages=("horovod>=0.28",))
    assert made.image.entry == "torch-2.12-horovod"
    assert rejected(choice)[NEW.name] == "it lacks horovod, which torch-2.12-horovod has"
    own = NEW.model_copy(update={"name": "pytorch-2.13-cpu", "requirements": ("torch==2.13.0", "horovod==0.29")})
    assert decide(own, HOROVOD, packages=("horovod",))[1].image.entry == own.name
    assert decide(HUB, HOROVOD, packages=("horovod",), entry=HUB.name, target=DOCKER)[1].image.entry == HUB.name
    assert decide(HUB, HOROVOD, packages=("horovod",), target=DOCKER)[1].image.entry == HOROVOD.name
    with pytest.raises(CannotPlan, match="it lacks horovod, which torch-2.12-horovod has"):
        decide(NEW, HOROVOD.model_copy(update={"framework": "tensorflow"}), packages=("horovod",))


def test_a_build_with_what_nothing_uses_is_taken_where_its_version_is_asked_for(decide):
    choice, made = decide(NEW, HOROVOD)
    assert made.image.entry == NEW.name
    reason = "it has horovod, which nothing here uses; its version, or optimisation.entry, selects it"
    assert rejected(choice)[HOROVOD.name] == reason
    assert decide(NEW, HOROVOD, version="2.12")[1].image.entry == HOROVOD.name
