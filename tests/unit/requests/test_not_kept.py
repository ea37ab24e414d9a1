"""Preferences that cannot be kept: notes in the plan, and errors with strictness."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from modak_ansible.commands.main import application
from modak_ansible.errors import InvalidBlueprint
from modak_ansible.planning.service import plan_blueprint, planned_from_file
from modak_ansible.reading.blueprint.reader import Inputs

T = "optimisation/app_type-ai_training"
P = "optimisation/app_type-hpc"


def check(folder, said):
    plan = folder.plan
    notes = "\n".join(f"{note.path}: {note.reason} ({note.hint})" for note in plan.notes)
    assert said in notes
    for strictly in (Inputs(strict=True), Inputs()):
        with pytest.raises(InvalidBlueprint) as caught:
            plan_blueprint(folder.file, strictly)
        assert "request.json:" in str(caught.value)
        folder.set("strict", True)  # the request's own word does the same


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("job_options/request_event_notification", "e", "no recipient of the mail is named"),
        ("job_options/email_address", "a@example.org", "no event for the mail is named"),
        ("optimisation/autotuning", {"tuner": "cresta"}, "tuner: no external tuner is run (leave the section out"),
        ("optimisation/autotuning", {"input": "dsl text"}, "autotuning.input: no external tuner is run"),
        ("optimisation/opt_build", {"acc_type": "fpga"}, "the catalogue has no build for FPGAs"),
        (f"{T}/data/basedata", "Imagenet", "Imagenet is not fetched: no address of it is known (location:"),
        ("application/threads", 8, "8 threads are more than the 4 cores of their process"),
        ("application/mpi_ranks", 2, "2 processes are more than 1 x 1"),
        (f"{T}/config/distributed_training", True, "one process alone trains"),
        (f"{T}/ai_framework-pytorch/xla", True, "no build of pytorch 2.13.0 has it (compilers there: inductor)"),
        (f"{T}/ai_framework-pytorch", {"version": "1.4", "xla": True}, "no build of pytorch 1.4.0 has it (compilers there: glow)"),
        (f"{T}/data/count", None, "count has to say how many samples it has"),
        (f"{T}/data/size", 59, "59 bytes are too few for 60000 samples"),
        ("optimisation/opt_build", {"acc_type": "nvidia"}, "the job asks for no accelerator (add request_gpus"),
        ("optimisation/opt_build", {"cpu_type": "arm"}, "the processor of cluster is skylake_avx512"),
        ("optimisation/opt_build", {"cpu_type": "amd"}, "the processor of cluster is skylake_avx512"),
        ("job_options/request_event_notification", "REQUEUE", "mail cannot be asked for of REQUEUE"),
        ("application/executable", "./solver", "~/solver on the target runs"),
        ("application/executable", "python3 resnet/imagenet.py", "~/resnet/imagenet.py on the target runs"),
        ("application/storage_class_pref", "default-ultra_high", "names no storage of class default-ultra_high"),
        ("optimisation/app_name", "ansys", "the section of its app_type says what the application needs"),
    ],
)  # fmt: skip
def test_a_preference_of_a_training(training, field, value, said):
    training.set("application/arguments", "--epochs 3").set(field, value)
    check(training, said)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (f"{P}/parallelisation-mpi/message_size", "small", "nothing was measured of messages of several lengths"),
        (f"{P}/data", {"size": 1}, "data.size: a program reads its data by itself"),
        (f"{P}/parallelisation-mpi/library", "mvapich", "the catalogue has mpich 4.2.1, openmpi 5.0.7: mpich is used"),
        (f"{P}/parallelisation-mpi/version", "1.10", "openmpi 5.0.7 is used"),
        (f"{P}/data", {"etl": {"cache": True}}, "a program reads its data by itself"),
    ],
)  # fmt: skip
def test_a_preference_of_a_program(program, field, value, said):
    program.set(field, value)
    check(program, said)


def test_what_the_planner_cannot_keep_is_left_out(training):
    training.set(f"{T}/ai_framework-pytorch/inductor", True)
    (note,) = training.plan.notes
    assert note.path == "job.optimisation.app_type-ai_training.ai_framework-pytorch"
    assert "inductor" in note.reason


def test_a_machine_without_a_scheduler_keeps_no_words_for_one(training):
    training.set("target", {"name": "local"}).set("job_options", {"standard_output_file": "mine.out", "account": "me"})
    training.set("job_options/wall_time_limit", "0:10:00")
    assert [note.path for note in training.plan.notes] == [
        "job.job_options.account", "job.job_options.standard_output_file",
    ]  # fmt: skip
    training.set("job_options/job_dependency", "afterok:12")
    with pytest.raises(InvalidBlueprint, match="the job starts at once"):
        _ = training.plan


def test_the_digest_is_of_what_happens(training, tmp_path):
    plain = training.plan
    training.set("optimisation/autotuning", {"tuner": "cresta", "input": "a.tune"})
    noted = training.plan
    assert (plain.notes, len(noted.notes)) == ((), 2)
    assert noted.digest == plain.digest == training.plan.digest
    file = tmp_path / "plan.json"
    file.write_text(noted.model_dump_json())
    folder = plan_blueprint(training.file, Inputs()).save()
    assert planned_from_file(folder / "plan.json").plan.notes == noted.notes


def test_a_plan_without_notes_says_nothing_of_them(training):
    assert "notes" not in training.plan.model_dump(mode="json")


def test_the_commands(training):
    training.set("optimisation/autotuning", {"tuner": "cresta"})
    run = CliRunner().invoke
    shown = run(application(), ["plan", str(training.file)])
    assert "  not kept\n    job.optimisation.autotuning.tuner: no external tuner is run" in shown.stdout
    (note,) = json.loads(run(application(), ["plan", str(training.file), "--json"]).stdout)["notes"]
    assert note["path"] == "job.optimisation.autotuning.tuner"
    valid = run(application(), ["validate", str(training.file)])
    assert valid.exit_code == 0
    assert "note: " in valid.stderr
    for command in ("plan", "validate", "deploy"):
        strict = run(application(), [command, str(training.file), "--strict"])
        assert "no external tuner is run" in strict.output + str(strict.exception)
        assert strict.exit_code != 0


@pytest.mark.parametrize("where", ["strict", "job/strict", "job/optimisation/strict"])
def test_a_request_may_be_strict_itself(training, where):
    training.set("optimisation/autotuning", {"tuner": "cresta"})
    *path, last = where.split("/")
    owner = training.content
    for name in path:
        owner = owner[name]
    owner[last] = True
    training.write()
    assert "autotuning.tuner is refused: no external tuner is run" in training.mistakes


def test_a_preference_of_a_blueprint(blueprint):
    preference = "        job_options: { account: me }\n        optimisation: { compiler: inductor%s }\n"
    text = re.sub("        optimisation:.*\n", "", blueprint.service.read_text())
    blueprint.service.write_text(text.replace("        walltime:", preference % "" + "        walltime:", 1))
    plan = plan_blueprint(blueprint.service, Inputs()).plan
    assert "optimisation.compiler" in [note.path for note in plan.notes]
    blueprint.service.write_text(
        text.replace("        walltime:", preference % ", strict: true" + "        walltime:", 1)
    )
    with pytest.raises(InvalidBlueprint, match="inductor"):
        plan_blueprint(blueprint.service, Inputs())
