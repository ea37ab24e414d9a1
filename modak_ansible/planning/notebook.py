"""JupyterLab in the place of a training: the same image with it on top, data and job, as a deployment of its own."""

from __future__ import annotations

from modak_ansible.catalogue import Catalogue
from modak_ansible.catalogue.entry import ANY
from modak_ansible.errors import UsageError
from modak_ansible.model.application import Application, Optimisation
from modak_ansible.model.job_options import ONE_PROCESS
from modak_ansible.model.measured.work import Work
from modak_ansible.model.plan import Plan
from modak_ansible.model.request import Request
from modak_ansible.runtime import NOTEBOOK
from modak_ansible.schedulers.script import trainings_before

_REQUIREMENT = "jupyterlab>=4,<5"
_PYTHON = (3, 8)  # that it needs at least
# What runs in the place of the script, below the folder of its code.
_SCRIPT = f"../runtime/{NOTEBOOK}.py"
_UNSET = {**ONE_PROCESS, "job_name": None}
# Of a training's preferences for itself those that say in what image it runs, and how its process is set up.
_KEPT = ("entry", "build", "allocator", "threads", "binding", "wait_policy", "huge_pages", "staging", "strict")


def is_notebook(application: Application) -> bool:
    return application.script == _SCRIPT


def notebook_for(request: Request, idle: int) -> Request:
    """A request for JupyterLab where a training would run, in one process.

    What is the script's alone is left out: its arguments, the choices that act in its code, its outputs. Points of a
    sweep come to the same.

    Args:
        idle: seconds after which it ends where nobody works with it.

    Raises:
        UsageError: it is no training, or one of whichever framework.
    """
    application, resources, options = request.application, request.resources, request.job_options
    if not application.is_training:
        raise UsageError(f"{request.training} is a program: a notebook needs the Python of a training")
    if application.framework == ANY:
        hint = "name one in a blueprint of its own: framework: pytorch"
        raise UsageError(f"{request.training} trains in any framework, and a notebook needs one", hint=hint)
    requirements = [line.partition(" --hash=")[0].lower() for line in application.requirements]
    has_own = any(line.startswith("jupyterlab") and line[10:11] in ("", *"<>=!~[ ;") for line in requirements)
    program = {
        "script": _SCRIPT,
        "arguments": (),
        "words": (str(idle),),
        "requirements": application.requirements if has_own else (*application.requirements, _REQUIREMENT),
        "pre_execution": tuple(line for line in application.pre_execution if not trainings_before([line])),
        "post_execution": (),
        "outputs": ("*.ipynb",),
        "work": Work(),
        "workload": None,
        "distributed": None,
        "distributed_training": False,
        "prepares": False,
    }
    preferences = {name: getattr(request.optimisation, name) for name in _KEPT}
    return request.model_copy(
        update={
            "blueprint": f"{request.blueprint}-notebook",
            "application": application.model_copy(update=program),
            "resources": resources.model_copy(update={"nodes": 1, "processes_per_node": 1}),
            "job_options": options.model_copy(update=_UNSET),
            "optimisation": Optimisation(**preferences),
            "after": (),
            "parallel": None,
            "checkpoint": None,
            "scale": None,
            "search": None,
            "parallelism": None,
            "need": None,
            "timed": None,
        }
    )


def check_python(plan: Plan, catalogue: Catalogue) -> None:
    """
    Raises:
        UsageError: JupyterLab has no release for the Python of a notebook's build.
    """
    entry = catalogue.find(plan.image.entry)
    base = catalogue.bases.get(entry.base) if entry else None
    if entry and base and tuple(map(int, base.python.split("."))) < _PYTHON:
        hint = "take another version: modak catalogue lists them"
        raise UsageError(f"JupyterLab needs Python 3.8, and {entry.name} has {base.python}", hint=hint)
