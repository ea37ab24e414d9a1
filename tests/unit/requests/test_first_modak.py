"""Where the first MODAK failed its users: the end of its reference, case by case."""

from __future__ import annotations

import pytest

T = "optimisation/app_type-ai_training"


def test_thirty_six_hours_are_a_day_and_a_half(training):
    assert training.request.resources.walltime == 36 * 3600
    assert "#SBATCH --time=1-12:00:00\n" in training.plan.job.script


def test_errors_have_a_directive_of_two_dashes(training):
    training.set("job_options/standard_error_file", "mnist.err")
    assert "#SBATCH --error=mnist.err\n" in training.plan.job.script


def test_mail_is_told_in_the_schedulers_own_words(training):
    training.set("job_options/request_event_notification", "abe").set("job_options/email_address", "alice@example.org")
    assert "#SBATCH --mail-type=FAIL,BEGIN,END\n" in training.plan.job.script
    assert "abe" not in training.plan.job.script
    training.set("target", {"name": "pbs"})
    assert "#PBS -m abe\n" in training.plan.job.script


def test_a_line_break_in_a_name_does_not_reach_the_script(training):
    training.set("job_options/job_name", "mnist\n#SBATCH --partition=gpu")
    assert "request.json:4:19: unsafe-value: job.job_options.job_name is refused" in training.mistakes


def test_a_queue_of_torque_is_a_queue(training):
    training.set("target", {"name": "pbs"}).set("job_options/queue", "batch")
    script = training.plan.job.script
    assert "#PBS -q batch\n" in script
    assert "#PBS -l nodes=1:ppn=4\n" in script


@pytest.mark.parametrize(
    ("framework", "version", "entry"),
    [
        ("tensorflow", "2", "tensorflow-2.21-cpu"),
        ("tensorflow", "2.1", "tensorflow-2.1-pip"),
        ("tensorflow", "<2.1", "tensorflow-1.14-pip"),
        ("pytorch", "2", "pytorch-2.13-cpu"),
        ("pytorch", "1.4", "pytorch-1.4-pip"),
        ("keras", None, "keras-3.15-tensorflow-cpu"),
        ("mxnet", "1.6", "mxnet-1.6-pip"),
        ("cntk", "2.7", "cntk-2.7-pip"),
    ],
)
def test_a_version_is_no_part_of_a_name_and_every_framework_is_planned(training, framework, version, entry):
    training.set(f"{T}/config/ai_framework", framework).set(f"{T}/ai_framework-pytorch", None)
    if version:
        training.set(f"{T}/ai_framework-{framework}", {"version": version})
    if framework == "keras":
        training.set(f"{T}/ai_framework-keras", {"backend": "tensorflow"})
    assert training.plan.image.entry == entry


def test_autotuning_is_planned(training):
    training.set("optimisation/enable_autotuning", True)
    assert training.request.optimisation.autotuning
    assert training.plan.job.script


def test_output_is_never_written_over_other_files(training, tmp_path):
    from modak_ansible.commands.plan.output import output_files, write_output
    from modak_ansible.errors import UsageError

    folder = tmp_path / "out"
    assert {path.name for path in write_output(training.plan, folder)} >= {"job.sh", "plan.json"}
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    write_output(training.plan, folder)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    other = training.set("application/arguments", "--epochs 4").plan
    with pytest.raises(UsageError, match="holds other files"):
        write_output(other, folder)
    assert (folder / "plan.json").read_text() != output_files(other)["plan.json"]
    assert {path.name for path in tmp_path.iterdir()} == {"out", "training"}, "nothing half-written is left"


def test_output_within_the_requests_folder_is_no_part_of_the_request(training):
    from modak_ansible.commands.plan.output import write_output

    (training.path / "train.py").write_text("print(1)\n")
    training.set("application/executable", "train.py")
    first = training.plan
    write_output(first, training.path / "out")
    assert training.plan.digest == first.digest


def test_a_nodes_own_disk_is_asked_for_by_its_class(training):
    training.set("application/storage_class_pref", "default-ssd")
    assert training.request.optimisation.staging == "node-local"
    training.set("application/storage_class_pref", "default-common")
    assert training.request.optimisation.staging == "shared"
    training.set("application/storage_class_pref", "default-ultra_high")
    assert "cluster names no storage of class default-ultra_high (it has: node-local default-ssd" in training.warnings


def test_xla_is_a_preference_and_no_dogma(training):
    training.set(f"{T}/config/ai_framework", "tensorflow").set(f"{T}/ai_framework-pytorch", None)
    assert training.request.optimisation.compiler == "any"
    training.set(f"{T}/ai_framework-tensorflow", {"xla": False})
    assert training.request.optimisation.compiler == "none"
    training.set(f"{T}/ai_framework-tensorflow", {"xla": True})
    assert training.request.optimisation.compiler == "xla"
