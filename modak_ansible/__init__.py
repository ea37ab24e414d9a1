"""Plans AI trainings with measured models and deploys them as optimised containers.

    import modak_ansible as modak

    planned = modak.plan("mnist-pytorch-slurm", values={"epochs": 4})
    modak.deploy(planned)
    print(modak.status("mnist-pytorch-slurm"))
    print(modak.compare("mnist-pytorch-slurm", by="loss").runs[0].deployment)

Only what is named here is public; the modak command is a thin layer over it.
"""

# What targets are given, too, lies here in a checkout. A wheel has no links: there it lies where Ansible looks for it.
__path__.append(f"{__path__[0]}/share/playbooks/collections/ansible_collections/modak/hpc/plugins/module_utils")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from modak_ansible.deployment.surface import (
        Listener,
        ModakError,
        __version__,
        compare,
        deploy,
        export,
        plan,
        results,
        status,
    )

__all__ = ["Listener", "ModakError", "__version__", "compare", "deploy", "export", "plan", "results", "status"]


def __getattr__(name: str) -> object:
    """Reads the rest when it is asked for: a command reads only what it needs."""
    import importlib

    if name in __all__:
        return getattr(importlib.import_module(__name__ + ".deployment.surface"), name)
    raise AttributeError("module " + repr(__name__) + " has no attribute " + repr(name))


def __dir__() -> list:  # type: ignore[type-arg]
    return __all__
