"""The container runtimes that a target may have, and what a plan, a job and a build must know of each."""

from __future__ import annotations

from typing import NamedTuple


class ContainerRuntime(NamedTuple):
    """What makes and runs images on a target."""

    programs: tuple[str, ...]  # of which the first that is there is taken
    ending: str = ".sif"  # of the files of its images
    # the template of how a job enters a container, where a command is not all that it takes
    entry: str = ""
    # the flags by which a container sees accelerators, by their makers
    accelerators: tuple[tuple[str, str], ...] = (("nvidia", "--nv"), ("amd", "--rocm"))
    tools: tuple[str, ...] = ("mksquashfs", "newuidmap", "newgidmap")  # that building, or pulling, takes besides
    builds: bool = True  # whether it makes images, or starts and pulls alone what others have made

    @property
    def reads_containerfiles(self) -> bool:
        """Whether its definitions are Containerfiles, whose images have no test of their own, and mount no others."""
        return self.ending != ".sif"


# By CDI, the Container Device Interface, which the makers' toolkits describe their devices for.
_CDI = (("nvidia", "--device=nvidia.com/gpu=all"), ("amd", "--device=amd.com/gpu=all"))
_ENROOT = ("mksquashfs", "jq", "parallel")
# By what a target calls its container_runtime.
CONTAINER_RUNTIMES = {
    "any": ContainerRuntime(("apptainer", "singularity")),
    "apptainer": ContainerRuntime(("apptainer",)),
    "singularity": ContainerRuntime(("singularity",)),
    "podman": ContainerRuntime(("podman",), ".tar", "podman", _CDI),
    "docker": ContainerRuntime(("docker",), ".tar", "docker", (("nvidia", "--gpus=all"),), ()),
    "podman-hpc": ContainerRuntime(("podman-hpc",), ".tar", "podman", (("nvidia", "--gpu"),)),
    "charliecloud": ContainerRuntime(
        ("ch-run",), ".sqfs", "charliecloud", (), ("ch-image", "ch-convert", "mksquashfs")
    ),
    "enroot": ContainerRuntime(
        ("enroot",), ".sqsh", "enroot", (("nvidia", "--env=NVIDIA_VISIBLE_DEVICES=all"),), _ENROOT, builds=False
    ),
    # a plugin of Slurm's srun, which starts what enroot has pulled
    "pyxis": ContainerRuntime(
        ("enroot",), ".sqsh", "pyxis", (("nvidia", "--container-env=NVIDIA_VISIBLE_DEVICES"),), _ENROOT, builds=False
    ),
}


def runtime_with(program: str) -> ContainerRuntime:
    """The runtime of a program, by its name; Apptainer's for one of another name."""
    return next(
        (runtime for runtime in CONTAINER_RUNTIMES.values() if program in runtime.programs),
        CONTAINER_RUNTIMES["any"],
    )
