"""Holding, releasing and requeuing a job, by what real schedulers printed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml_files

from modak_ansible.schedulers.base import ActionRefused, CommandResult, SchedulerSilent
from modak_ansible.schedulers.direct import Direct
from modak_ansible.schedulers.pbs.torque import Torque
from modak_ansible.schedulers.slurm.jobs import Slurm

SLURM, TORQUE = (yaml_files.read(Path(__file__).parent / "recorded" / f"{name}.yaml") for name in ("slurm", "torque"))
VERBS = ("hold", "release", "requeue")


class Recorded:
    """Answers with recordings in turn, and keeps what was asked."""

    def __init__(self, recordings, *names):
        self._answers = [recordings[name] for name in names]
        self.asked = []

    def __call__(self, argv):
        self.asked.append(" ".join(argv))
        case = self._answers.pop(0)
        return CommandResult(case["code"], case.get("out", ""), case.get("err", ""))


@pytest.mark.parametrize(
    ("scheduler", "recordings", "commands"),
    [(Slurm(), SLURM, [f"scontrol {verb} 7" for verb in VERBS]), (Torque(), TORQUE, ["qhold 7", "qrls 7", "qrerun 7"])],
    ids=["slurm", "torque"],
)
def test_the_commands(scheduler, recordings, commands):
    for verb, command in zip(VERBS, commands, strict=True):
        run = Recorded(recordings, "control-done")
        getattr(scheduler, verb)(run, "7")
        assert run.asked == [command]


def test_a_job_that_slurm_does_not_requeue_by_itself_is_requeued_when_its_owner_wants_it():
    run = Recorded(SLURM, "requeue-disabled", "control-done", "control-done", "control-done")
    Slurm().requeue(run, "818")
    assert run.asked == [
        "scontrol requeue 818", "scontrol update JobId=818 Requeue=1", "scontrol requeue 818",
        "scontrol update JobId=818 Requeue=0",
    ]  # fmt: skip


def test_a_job_that_slurm_will_not_requeue_is_left_as_it_was():
    run = Recorded(SLURM, "requeue-disabled", "control-done", "requeue-disabled", "control-done")
    with pytest.raises(ActionRefused, match="presently disabled"):
        Slurm().requeue(run, "818")
    assert run.asked[-1] == "scontrol update JobId=818 Requeue=0"


@pytest.mark.parametrize(
    ("verb", "case", "words"),
    [("hold", "hold-ended", "Job has already finished"), ("hold", "hold-unknown", "Invalid job id specified"),
     ("release", "release-ended", "Job has already finished"), ("requeue", "requeue-unknown", "Invalid job id specified")],
)  # fmt: skip
def test_what_slurm_refuses(verb, case, words):
    with pytest.raises(ActionRefused, match=words):
        getattr(Slurm(), verb)(Recorded(SLURM, case), "818")


@pytest.mark.parametrize(
    ("verb", "case", "words"),
    [("hold", "qhold-unknown", "Torque does not know the job"), ("release", "qrls-not-held", "can't be set"),
     ("requeue", "qrerun-user", "the server lets only its operators do that"), ("requeue", "qrerun-unknown", "cannot locate"),
     ("hold", "slurm-qhold-ended", "^qhold: Error on job id 819: Job has already finished$"),
     ("requeue", "slurm-qrerun", "Usage: Slurm::requeue")],
)  # fmt: skip
def test_what_torque_refuses(verb, case, words):
    with pytest.raises(ActionRefused, match=words):
        getattr(Torque(), verb)(Recorded(TORQUE, case), "121.frontend")


def test_warnings_of_slurms_own_qhold_are_no_refusal():
    Torque().hold(Recorded(TORQUE, "slurm-qhold-done"), "819")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("scheduler", "result"),
    [(Slurm(), CommandResult(124, timed_out=True, err="scontrol did not answer within 60 s")),
     (Slurm(), CommandResult(1, err="slurm_suspend error: Unable to contact slurm controller (connect failure)")),
     (Torque(), CommandResult(124, timed_out=True, err="qhold did not answer within 60 s")),
     (Torque(), CommandResult(111, err="qhold: cannot connect to server frontend (errno=111) Connection refused"))],
)  # fmt: skip
def test_a_silent_scheduler_refuses_nothing(verb, scheduler, result):
    with pytest.raises(SchedulerSilent):
        getattr(scheduler, verb)(lambda argv: result, "7")


def test_a_command_that_is_not_there_is_named():
    missing = CommandResult(127, err="qrerun: command not found", missing=True)
    with pytest.raises(ActionRefused, match="qrerun is not on the target's PATH"):
        Torque().requeue(lambda argv: missing, "7")


@pytest.mark.parametrize("verb", VERBS)
def test_without_a_scheduler_there_is_no_queue(verb):
    with pytest.raises(ActionRefused, match="without a scheduler"):
        getattr(Direct(), verb)(None, "7.1")


@pytest.mark.parametrize(
    ("case", "state"),
    [("requeuing-squeue", "ENDING"), ("requeued-squeue", "QUEUED"), ("requeued-and-held-squeue", "HELD")],
)
def test_a_requeued_job_in_squeue(case, state):
    assert str(Slurm().status(Recorded(SLURM, case), "818").state) == state
