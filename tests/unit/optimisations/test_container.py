"""What of the machine a container sees."""

from __future__ import annotations

import pytest

from modak_ansible.model.application import Application, Optimisation, Resources
from modak_ansible.model.request import GivenImage, Request
from modak_ansible.model.rule import Effects, Rule
from modak_ansible.model.target import Accelerator, Partition, Scheduler, Site, Target
from modak_ansible.planning.plan import CannotPlan, make_plan


def plan(vendor=None, accelerators=0, container="any", image="~/mine.sif", optimisation=None, own=(), **site):
    target = Target(
        name="cluster", scheduler=Scheduler.SLURM, container_runtime=container, image_base="docker", site=Site(**site),
        partitions=(Partition(name="all", nodes=1, cores=8, accelerators=2),),
        accelerator=Accelerator(vendor=vendor, count=2),
    )  # fmt: skip
    request = Request(
        blueprint="example", training="training", target=target, optimisation=optimisation or Optimisation(),
        application=Application(name="example", framework="pytorch", script="train.py", requirements=own),
        resources=Resources(accelerators=accelerators),
        image=GivenImage(source=image) if container != "none" and image else None,
    )  # fmt: skip
    return make_plan(request)


def choice(made):
    return next((choice for choice in made.choices if choice.name == "container"), None)


@pytest.mark.parametrize(("vendor", "flag"), [("nvidia", "--nv"), ("amd", "--rocm")])
def test_accelerators_that_the_job_asks_for_are_seen(vendor, flag):
    made = plan(vendor, 1)
    assert choice(made).value == flag
    assert f"{vendor} accelerators that the job asks for" in choice(made).reason
    assert f'"$runtime" exec\n    {flag}\n    --bind "$workspace"\n' in made.job.script


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
def test_accelerators_that_nobody_asks_for_are_not(vendor):
    made = plan(vendor)
    assert choice(made).value == "plain"
    assert [rejected.reason for rejected in choice(made).rejected] == ["the job asks for no accelerator"]
    assert "--nv" not in made.job.script
    assert "--rocm" not in made.job.script


def test_what_the_site_binds_and_its_rules_add():
    rule = Rule(name="clean", then=Effects(binds=("/data:/data:ro",), container_flags=("--cleanenv",)))
    made = plan("nvidia", 1, binds=("/opt/site",), rules=(rule,))
    assert choice(made).value == "--nv --cleanenv --bind /opt/site --bind /data:/data:ro"
    assert "--cleanenv comes from the site's rules" in choice(made).reason
    assert "the site has /opt/site, /data:/data:ro bound" in choice(made).reason
    lines = '    --nv\n    --cleanenv\n    --bind "$workspace"\n    --bind /opt/site\n    --bind /data:/data:ro\n    "$image"\n'
    assert lines in made.job.script


@pytest.mark.parametrize(
    ("container", "vendor", "entry", "ending"),
    [
        ("charliecloud", "nvidia", "pytorch-2.15-cuda", "sqfs"),
        ("charliecloud", "amd", "pytorch-2.10-rocm-hub", "sqfs"),
        ("podman-hpc", "amd", "pytorch-2.10-rocm-hub", "tar"),
    ],
)
def test_accelerators_that_a_runtime_does_not_bring_in_are_refused(container, vendor, entry, ending):
    reason = rf"^{container} has no flag that lets a container see accelerators of {vendor}\n"
    with pytest.raises(CannotPlan, match=reason) as refused:
        plan(vendor, 1, container, image=None, optimisation=Optimisation(entry=entry))
    assert "an image of your own" in refused.value.hint
    own = plan(vendor, 1, container, image=f"~/mine.{ending}")
    assert choice(own).value == "plain", "it may contain their drivers"


@pytest.mark.parametrize(
    ("container", "image"),
    [("charliecloud", "~/a.sif"), ("podman", "~/a.sqfs"), ("any", "~/a.tar"), ("enroot", "~/a.sqfs")],
)
def test_files_that_a_runtime_does_not_read_are_refused(container, image):
    with pytest.raises(CannotPlan, match="cannot run an image such as"):
        plan(container=container, image=image)


@pytest.mark.parametrize("container", ["enroot", "pyxis"])
def test_what_builds_nothing_pulls_what_a_container_host_has_pushed(container):
    here = {"container": container, "image": None, "optimisation": Optimisation(entry="pytorch-2.13-cpu")}
    with pytest.raises(CannotPlan, match="nothing says where cluster pulls pytorch-2.13-cpu from") as refused:
        plan(**here)
    assert "modak catalogue push pytorch-2.13-cpu docker://HOST/REPOSITORY" in refused.value.hint
    pulled = plan(**here, image_sources=("docker://registry.example/team/images",)).image
    made = plan(container="podman", image=None, optimisation=Optimisation(entry="pytorch-2.13-cpu")).image
    (layer,) = pulled.layers
    assert (layer.kind, layer.source) == ("pull", f"docker://registry.example/team/images:{made.digest}")
    assert pulled.path.endswith(".sqsh")
    assert layer.probe, "it is tried where it was pulled"
    assert plan(container=container, image="~/mine.sqsh").image.path == "~/mine.sqsh"


def test_packages_on_top_are_pulled_where_somebody_can_have_pushed_them():
    sources = {"image_sources": ("docker://registry.example/team/images",)}
    entry = Optimisation(entry="pytorch-2.13-cpu")
    pulled = plan(container="enroot", image=None, optimisation=entry, own=("einops",), **sources).image
    made = plan(container="podman", image=None, optimisation=entry, own=("einops",)).image
    assert pulled.layers[0].source == f"docker://registry.example/team/images:{made.digest}"
    with pytest.raises(CannotPlan, match="nothing says where cluster pulls requirements from") as refused:
        plan(container="enroot", image=None, optimisation=entry, own=("einops",))
    assert "push pytorch-2.13-cpu --packages --blueprint BLUEPRINT docker://" in refused.value.hint
    with pytest.raises(
        CannotPlan, match="packages on top of docker://a/b:1 would be a layer that is not in a registry"
    ):
        plan(container="enroot", image="docker://a/b:1", own=("einops",), **sources)


def test_pyxis_starts_nothing_where_srun_does_not():
    with pytest.raises(CannotPlan, match="pyxis is a plugin of Slurm's srun"):
        plan(container="pyxis", image="~/mine.sqsh", launcher="mpirun -np {ranks}")


def test_accelerators_of_which_nobody_knows_the_vendor():
    assert {rejected.value: rejected.reason for rejected in choice(plan(None, 1)).rejected} == {
        "--nv": "the accelerators are not described", "--rocm": "the accelerators are not described",
    }  # fmt: skip


def test_without_a_container_there_is_nothing_to_say():
    assert choice(plan(container="none")) is None
