"""A notebook's plan: the training's image with JupyterLab on top, its data, its job's options, and one process."""

from __future__ import annotations

import pytest

from modak_ansible.catalogue import load_catalogue
from modak_ansible.errors import UsageError
from modak_ansible.planning.notebook import check_python, is_notebook, notebook_for
from modak_ansible.planning.service import plan_blueprint, plan_trainings, request_of
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.project import find_blueprint


@pytest.fixture
def request_(blueprint):
    return request_of(blueprint.service, Inputs())


def planned(path, *, idle=1800, **inputs):
    return plan_trainings(path, Inputs(**inputs), None, lambda request: notebook_for(request, idle))


def test_it_is_the_training_with_jupyterlab_in_the_place_of_its_script():
    path = find_blueprint("mnist-pytorch-slurm")
    training, (notebook,) = plan_blueprint(path, Inputs()).plan, planned(path)
    plan = notebook.plan
    assert plan.deployment.startswith("mnist-pytorch-slurm-notebook-")
    assert plan.image.layers[:-1] == training.image.layers
    assert "jupyterlab>=4" in plan.image.layers[-1].definition
    assert plan.dataset == training.dataset
    assert plan.application.files == training.application.files
    assert (plan.job.walltime, plan.job.partition) == (training.job.walltime, training.job.partition)
    assert "    ../runtime/modak_notebook.py\n    1800\n)" in plan.job.script
    assert "modak_notebook.py" in [file.path for file in plan.runtime]
    assert not [file for file in training.runtime if "notebook" in file.path]
    assert is_notebook(plan.application)
    assert not is_notebook(training.application)


def test_it_is_one_process_that_waits_for_none(request_):
    many = {"resources": request_.resources.model_copy(update={"nodes": 4, "processes_per_node": 2})}
    options = {"job_options": request_.job_options.model_copy(update={"node_count": 4, "account": "a", "qos": "long"})}
    notebook = notebook_for(request_.model_copy(update={**many, **options}), 60)
    assert (notebook.resources.nodes, notebook.resources.processes_per_node) == (1, 1)
    assert (notebook.job_options.node_count, notebook.job_options.account, notebook.job_options.qos) == (
        None,
        "a",
        "long",
    )
    assert notebook.application.arguments == ()
    assert notebook.application.outputs == ("*.ipynb",)


def test_lines_before_it_run_unless_they_are_about_a_training_before(request_):
    lines = ("export A=1", "cp {after:first}/model.pt .")
    changed = request_.application.model_copy(update={"pre_execution": lines, "post_execution": ("rm -r x",)})
    application = notebook_for(request_.model_copy(update={"application": changed}), 60).application
    assert (application.pre_execution, application.post_execution) == (("export A=1",), ())


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("jupyterlab==4.2.5", ("jupyterlab==4.2.5",)),
        ("jupyterlab", ("jupyterlab",)),
        ("jupyterlab-git", ("jupyterlab-git", "jupyterlab>=4,<5")),
        ("einops", ("einops", "jupyterlab>=4,<5")),
    ],
)
def test_a_jupyterlab_of_their_own_is_the_one(request_, own, expected):
    changed = request_.application.model_copy(update={"requirements": (own,)})
    assert notebook_for(request_.model_copy(update={"application": changed}), 60).application.requirements == expected


def test_points_of_a_sweep_come_to_the_same(blueprint):
    blueprint.replace("        walltime:", "        sweep: { epochs: [ 1, 2 ] }\n        walltime:")
    found = planned(blueprint.service)
    assert len(found) == 2
    assert len({each.plan.job.script for each in found}) == 1


def test_a_program_is_no_training(request_):
    program = request_.application.model_copy(update={"framework": "", "script": "", "command": ("solve",)})
    with pytest.raises(UsageError, match="is a program"):
        notebook_for(request_.model_copy(update={"application": program}), 60)
    of_any = request_.application.model_copy(update={"framework": "any"})
    with pytest.raises(UsageError, match="any framework"):
        notebook_for(request_.model_copy(update={"application": of_any}), 60)


def test_an_old_python_is_told(blueprint):
    (found,) = planned(blueprint.service)
    check_python(found.plan, load_catalogue())
    old = found.plan.model_copy(update={"image": found.plan.image.model_copy(update={"entry": "tensorflow-1.14-pip"})})
    with pytest.raises(UsageError, match=r"needs Python 3\.8, and tensorflow-1\.14-pip has 2\.7"):
        check_python(old, load_catalogue())
