"""What a preference for efficiency does to a job: more processes, fewer, or a reason why it stays as it is."""

from __future__ import annotations

import pytest

from modak_ansible.model.application import Application, HpcApplication, Optimisation, Resources
from modak_ansible.model.job_options import JobOptions
from modak_ansible.model.measured.prediction import Gain, Interval, Prediction
from modak_ansible.model.request import GivenImage, Request
from modak_ansible.model.scaled import Scale
from modak_ansible.model.target import Partition, Processor, Scheduler, Target
from modak_ansible.performance.scaling import ScalingRun
from modak_ansible.planning.plan import make_plan


class Model:
    """Knows runs of every program, and nothing else."""

    def __init__(self, *runs):
        self.runs = tuple(ScalingRun(*run) for run in runs)

    def scaling_runs(self, request):
        return self.runs

    def predict(self, question):
        return Prediction(seconds=Interval(middle=1, low=1, high=1), known=False)

    def gain(self, old, new):
        return Gain(ratio=Interval(middle=1, low=0, high=9), records=0, known=False)


def request(least, *, hpc=None, options=None, scheduler="slurm", **resources):
    target = Target(
        name="cluster", scheduler=Scheduler(scheduler), processor=Processor(cores=8),
        partitions=(Partition(name="batch", nodes=4, cores=8),) if scheduler != "none" else (),
    )  # fmt: skip
    return Request(
        blueprint="solver", training="program", target=target, resources=Resources(**resources),
        application=Application(
            name="solver", framework="", script="", command=("./solve",),
            hpc=HpcApplication(**(hpc or {"parallelisation": "mpi"})),
        ),
        optimisation=Optimisation(), scale=None if least is None else Scale(minimal_efficiency=least), job_options=JobOptions(**(options or {})), image=GivenImage(source="docker://example.org/solver:1"),
    )  # fmt: skip


def planned(asked, model=None):
    plan = make_plan(asked, model=model)
    choice = next((choice for choice in plan.choices if choice.name == "scaling"), None)
    return plan.job, choice


HALF = ((1, 100.0), (2, 75.0), (4, 62.5))  # half of it is serial
ALL = ((1, 80.0), (4, 20.0), (16, 5.0))


def test_a_program_that_scales_gets_all_that_there_is():
    job, choice = planned(request(0.9, processes_per_node=2, cores_per_process=1), Model(*ALL))
    assert (job.nodes, job.processes_per_node) == (4, 8)
    assert (choice.stock, choice.value) == ("1x2x1", "4x8x1")
    assert "by 3 records: an efficiency of 1.00" in choice.reason
    assert "--nodes=4" in job.script


def test_a_program_that_scales_badly_gets_less_than_it_asks_for():
    job, choice = planned(request(0.65, nodes=2, processes_per_node=8, cores_per_process=1), Model(*HALF))
    assert (job.nodes, job.processes_per_node) == (1, 2)
    assert choice.value == "1x2x1"
    assert "an efficiency of 0.67" in choice.reason


def test_job_options_give_way():
    options = {"node_count": 2, "process_count_per_node": 8}
    job, _ = planned(request(0.65, options=options), Model(*HALF))
    assert (job.nodes, job.processes_per_node) == (1, 2)
    assert "--ntasks-per-node=2" in job.script


def test_threads_of_a_rank_take_their_cores():
    job, _ = planned(request(0.9, hpc={"parallelisation": "mpi", "ranks": 2, "threads": 4}), Model(*ALL))
    assert (job.nodes, job.processes_per_node, job.cores_per_process) == (4, 2, 4)


def test_memory_that_a_core_must_have_leaves_cores_empty():
    asked = request(0.9, processes_per_node=2, cores_per_process=1, options={"minimum_memory_per_processor": 10**9})
    large = Partition(name="batch", nodes=4, cores=8, memory=3 * 10**9)
    job, _ = planned(
        asked.model_copy(update={"target": asked.target.model_copy(update={"partitions": (large,)})}), Model(*ALL)
    )
    assert (job.nodes, job.processes_per_node) == (4, 3)


def test_an_efficiency_that_was_seen_is_enough():
    hpc = {"parallelisation": "mpi", "ranks": 8, "scaling_efficiency": 1.0}
    job, choice = planned(request(0.9, hpc=hpc))
    assert job.nodes * job.processes_per_node == 16
    assert "by the efficiency that was seen" in choice.reason
    bad, _ = planned(request(0.9, hpc={**hpc, "scaling_efficiency": 0.125}))
    assert bad.nodes * bad.processes_per_node == 1


def test_threads_of_a_single_process_are_chosen():
    hpc = {"parallelisation": "openmp", "threads": 2}
    job, choice = planned(request(0.9, hpc=hpc), Model(*ALL))
    assert (job.nodes, job.processes_per_node, job.cores_per_process) == (1, 1, 8)
    assert choice.value == "1x1x8"


@pytest.mark.parametrize(
    ("asked", "model", "words"),
    [
        (request(0.9, processes_per_node=4), None, "how it scales is not known"),
        (request(0.9, processes_per_node=4), Model((4, 10.0), (4, 11.0)), "how it scales is not known"),
        (request(0.9, hpc={"parallelisation": "openacc"}), Model(*ALL), "a program with openacc is one process"),
    ],
)
def test_where_nothing_can_be_chosen_it_says_why(asked, model, words):
    job, choice = planned(asked, model)
    assert job.processes_per_node == asked.resources.processes_per_node
    assert words in choice.reason
    assert choice.rejected == ()


def test_without_the_preference_nothing_is_said():
    assert planned(request(None, processes_per_node=4), Model(*ALL))[1] is None


def test_a_machine_without_a_scheduler_is_one_node():
    job, _ = planned(request(0.9, scheduler="none", processes_per_node=2, cores_per_process=1), Model(*ALL))
    assert (job.nodes, job.processes_per_node) == (1, 8)
