"""Documents of the kinds that users of the first MODAK had: each is planned, with notes, or told as what it is."""

from __future__ import annotations

import json

import pytest
from example_documents import DOCUMENTS, IMAGE, SINGLE, TUNER, mpi, program

from modak_ansible.commands.plan.output import write_output
from modak_ansible.commands.plan.table import plan_table
from modak_ansible.planning.service import check_blueprint, plan_blueprint
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.project import shipped


def planned(tmp_path, document, **inputs):
    (tmp_path / ".modak").mkdir(exist_ok=True)
    file = tmp_path / "request.json"
    file.write_text(json.dumps(document))
    return plan_blueprint(file, Inputs(**inputs)).plan


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_is_planned_with_notes_and_written_out(tmp_path, name):
    plan = planned(tmp_path, DOCUMENTS[name])
    assert plan.notes
    assert all(note.path and note.reason for note in plan.notes)
    written = {path.name for path in write_output(plan, tmp_path / "out")}
    assert {"job.sh", "plan.json"} <= written
    assert planned(tmp_path, DOCUMENTS[name]).digest == plan.digest


def test_forty_cores_are_a_nodes(tmp_path):
    job = planned(tmp_path, DOCUMENTS["torque"]).job
    assert (job.nodes, job.processes_per_node, job.cores_per_process) == (2, 40, 1)
    assert "#PBS -l nodes=2:ppn=40\n" in job.script


def test_mail_and_quality_of_service_of_slurm(tmp_path):
    script = planned(tmp_path, DOCUMENTS["cirrus"]).job.script
    assert "#SBATCH --qos=standard\n" in script
    assert "#SBATCH --mail-type=FAIL,BEGIN,END\n" in script
    assert '"$HOME"/heat' in script, "what is not here is on the target"


def test_a_build_is_in_the_image_that_is_named_or_in_the_catalogues(tmp_path):
    assert planned(tmp_path, DOCUMENTS["a named image"]).image.entry == IMAGE
    assert planned(tmp_path, DOCUMENTS["torque"]).image.entry == "mpich-dev"
    assert planned(tmp_path, DOCUMENTS["egi"]).image.entry == "openmpi-dev"
    script = planned(tmp_path, DOCUMENTS["torque"]).job.script
    assert "archive=$deployment/build/heat.c\n" in script
    assert "tar -x" not in script, "a single file is no archive"


def test_an_image_is_not_taken_where_the_catalogue_has_just_that(tmp_path):
    document = program(application={"container_runtime": IMAGE}, optimisation={"app_type-hpc": mpi(version="4.2")})
    assert planned(tmp_path, document).image.entry == "mpich-dev"


def test_the_build_for_an_accelerator_and_a_version(tmp_path):
    plan = planned(tmp_path, DOCUMENTS["a training with torque"])
    assert plan.image.entry == "tensorflow-2.1-hub-cuda"
    plan = planned(tmp_path, DOCUMENTS["a training in an image"])
    assert plan.image.entry == "docker://example/tf:2.1-gpu"


@pytest.mark.parametrize("name", sorted(path.stem for path in (shipped("tosca") / "targets").glob("*.yaml")))
def test_a_description_that_ships_is_shown_as_unverified(tmp_path, name):
    plan = planned(tmp_path, program(SINGLE, target={"name": name}))
    assert plan.target.unverified
    assert "target      unverified: " in plan_table(plan, 100)
    assert plan.model_dump(mode="json")["target"]["unverified"] == plan.target.unverified
    mine = planned(
        tmp_path, program(SINGLE, target={"name": name}), values=(("frontend", "login.example"), ("username", "me"))
    )
    assert (mine.target.address, mine.target.username) == ("login.example", "me")


def test_a_users_own_description_is_not_unverified(training):
    assert not training.request.target.unverified
    assert "unverified" not in training.plan.target.model_dump(mode="json")


def test_a_template_is_told_as_such_at_each_place(tmp_path):
    document = program(optimisation={
        "app_type": "ai_training/hpc/ai_inference", "opt_build": {"cpu_type": "x86/arm/amd", "acc_type": "nvidia/amd/fpga"},
        "app_type-ai_training": {"config": {"ai_framework": "tensorflow/pytorch"}, "data": {"basedata": "Imagenet/CIFAR/MNIST"}},
        "app_type-hpc": {
            "config": {"parallelisation": "mpi/openmp/opencc"}, "data": {"basedata": "IMAGE/RESTART"},
            "parallelisation-mpi": {"library": "mvapch/opnmpi", "message_size": "small/medium/large"},
            "parallelisation-openmp": {"affinity": "block/simple"}, "parallelisation-opencl": {"compiler": "pgi/cray"},
        },
    })  # fmt: skip
    file = tmp_path / "request.json"
    file.write_text(json.dumps(document, indent=1))
    mistakes = Mistakes()
    assert check_blueprint(file, Inputs(), mistakes) == []
    told = [mistake for mistake in mistakes if mistake.rule == "list-of-choices"]
    assert len(told) == 11
    assert all(each.message.endswith("is a list of choices: pick one") and each.location.line for each in told)
    # a path is no list of choices
    assert planned(tmp_path, program(optimisation=TUNER)).notes


def test_json_without_its_braces(tmp_path):
    file = tmp_path / "request.json"
    file.write_text('\t"optimisation": {\n}')
    mistakes = Mistakes()
    check_blueprint(file, Inputs(), mistakes)
    assert "request.json:1:16: json-syntax: not JSON: the braces around the whole are missing" in str(
        next(iter(mistakes))
    )
