"""Resources, job options and ranks agree, or the request is refused."""

from __future__ import annotations

from datetime import datetime

import pytest

from modak_ansible.allocation import allocate
from modak_ansible.allocation.limits import resource_problems
from modak_ansible.allocation.options import account_of, settled
from modak_ansible.errors import CannotPlan
from modak_ansible.model.application import Application, HpcApplication, Optimisation, Resources
from modak_ansible.model.job_options import JobComponent, JobDependency, JobOptions
from modak_ansible.model.request import Request
from modak_ansible.model.target import Partition, Scheduler, Site, Target
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs


def request(scheduler="slurm", options=None, *, site=None, **resources):
    partitions = (
        Partition(name="cpu", nodes=4, cores=8, accelerators=0), Partition(name="gpu", nodes=2, cores=8, accelerators=4),
    )  # fmt: skip
    target = Target(
        name="cluster", scheduler=Scheduler(scheduler), partitions=partitions if scheduler != "none" else (),
        site=Site(**(site or {})),
    )  # fmt: skip
    return Request(
        blueprint="example", training="training", target=target, optimisation=Optimisation(),
        application=Application(name="example", framework="pytorch", script="train.py", distributed_training=True),
        resources=Resources(**resources), job_options=JobOptions(**(options or {})),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value", "name"),
    [
        ("node_count", 2, "nodes"), ("process_count_per_node", 2, "processes_per_node"),
        ("core_count_per_process", 2, "cores_per_process"), ("memory_limit", 2**30, "memory"),
        ("request_gpus", 2, "accelerators"), ("node_exclusive", True, "exclusive"), ("queue", "gpu", "partition"),
        ("partition", "gpu", "partition"), ("wall_time_limit", 7200, "walltime"),
    ],
)  # fmt: skip
def test_an_option_is_what_is_asked_for(option, value, name):
    assert getattr(settled(request(options={option: value})).resources, name) == value
    same = settled(request(options={option: value}, **{name: value}))
    assert getattr(same.resources, name) == value


@pytest.mark.parametrize(
    ("option", "value", "name", "other", "said"),
    [
        ("node_count", 2, "nodes", 3, "resources.nodes: 3"),
        ("process_count_per_node", 2, "processes_per_node", 4, "resources.processes_per_node: 4"),
        ("core_count_per_process", 2, "cores_per_process", 4, "resources.cores_per_process: 4"),
        ("memory_limit", 10**9, "memory", 2 * 10**9, "resources.memory: 2.0 GB"),
        ("request_gpus", 1, "accelerators", 2, "resources.accelerators: 2"),
        ("queue", "gpu", "partition", "cpu", "resources.partition: cpu"),
        ("wall_time_limit", 7200, "walltime", 1800, "walltime: 00:30:00"),
    ],
)
def test_two_truths_are_refused(option, value, name, other, said):
    with pytest.raises(CannotPlan, match=said) as caught:
        settled(request(options={option: value}, **{name: other}))
    assert caught.value.about == f"job_options.{option}"


def test_cores_count_processes_of_the_whole_job():
    assert settled(request(options={"core_count": 8})).resources.processes_per_node == 8
    spread = settled(request(options={"core_count": 16})).resources
    assert (spread.nodes, spread.processes_per_node) == (2, 8)
    assert settled(request(options={"core_count": 16}, nodes=4)).resources.processes_per_node == 4
    assert settled(request(options={"core_count": 12, "process_count_per_node": 4})).resources.nodes == 3
    made = make_plan(request(options={"core_count": 16})).job
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks=16\n#SBATCH --ntasks-per-node=8\n" in made.script


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"core_count": 9, "node_count": 2}, "cannot be shared out evenly, 2 nodes"),
        ({"core_count": 9, "process_count_per_node": 2}, "cannot be shared out evenly, 2 on a node"),
        ({"core_count": 9, "process_count_per_node": 2, "node_count": 2}, "2 nodes with 2 processes each"),
        ({"core_count": 64}, "do not fit evenly"),
    ],
)
def test_cores_that_do_not_come_out_are_refused(options, said):
    with pytest.raises(CannotPlan, match=said) as caught:
        settled(request(options=options))
    assert caught.value.about == "job_options.core_count"


def test_under_torque_memory_is_the_whole_jobs():
    made = settled(request("torque", {"memory_limit": 8 * 2**30, "node_count": 2}, site={"launcher": "mpirun"}))
    assert made.resources.memory == 4 * 2**30
    assert "#PBS -l mem=8192mb\n" in make_plan(made).job.script
    with pytest.raises(CannotPlan, match="4.3 GB on each of 2 nodes"):
        settled(request("torque", {"memory_limit": 4 * 2**30, "node_count": 2}, memory=4 * 2**30))


def test_under_torque_a_partition_is_no_queue():
    made = make_plan(request("torque", {"queue": "gpu", "partition": "east"})).job
    assert "#PBS -q gpu\n#PBS -l partition=east\n" in made.script
    with pytest.raises(CannotPlan, match="both a and b"):
        settled(request(options={"queue": "a", "partition": "b"}))


def test_the_users_account_and_name_come_before_the_sites():
    asked = request(options={"account": "mine", "job_name": "my_job"}, site={"account": "ours"})
    assert account_of(asked) == "mine"
    assert "#SBATCH --job-name=my_job\n#SBATCH --account=mine\n" in make_plan(asked).job.script
    assert account_of(request(site={"account": "ours"})) == "ours"


def components(**more):
    return {
        "node_count": 4, "components": (JobComponent(name="head", partition="gpu", memory_limit=2 * 10**9),
                                        JobComponent(name="rest", node_count=3)), **more,
    }  # fmt: skip


def test_components_take_from_the_job_what_they_do_not_say():
    job = allocate.allocate(request(options=components(partition="cpu"), memory=10**9))
    head, rest = job.request.job_options.components
    assert (head.partition, head.memory_limit, rest.partition, rest.memory_limit) == ("gpu", 2 * 10**9, "cpu", 10**9)
    assert (job.layout.nodes, job.layout.cores, job.request.resources.memory) == (4, 8, 10**9)
    assert job.partition.accelerators == 0  # of the one that has the least
    assert not resource_problems(request(options=components(partition="cpu")))


@pytest.mark.parametrize(
    ("options", "resources", "said"),
    [
        (components(node_count=3), {}, "4 nodes together, and node_count: 3"),
        (components(partition="gpu"), {}, "rest: 3 nodes are asked for, and the partition gpu has 2"),
        ({"node_count": 4, "components": (JobComponent(name="a", partition="gpu", node_count=2),
                                          JobComponent(name="b", partition="gpu", node_count=2))}, {},
         "components ask for 4 nodes of the partition gpu, which has 2"),
        (components(partition="cpu"), {"accelerators": 1}, "rest: 1 accelerator a node is asked for"),
        (components(), {"nodes": 2}, "resources.nodes: 2"),
        ({"node_count": 2, "components": (JobComponent(name="a"), JobComponent(name="b", partition="nosuch"))}, {},
         "no partition nosuch"),
    ],
)  # fmt: skip
def test_components_that_are_not_to_be_had(options, resources, said):
    problems = resource_problems(request(options=options, **resources))
    assert [problem for problem in problems if said in problem.message], problems
    assert {problem.about.partition(".")[0] for problem in problems} == {"job_options"}


@pytest.mark.parametrize("scheduler", ["torque", "pbspro", "lsf", "none"])
def test_components_are_slurms(scheduler):
    (problem,) = resource_problems(request(scheduler, components()))
    assert (problem.about, problem.optional) == ("job_options.components", False)
    assert "only Slurm has heterogeneous jobs" in problem.message


def test_settling_twice_is_settling_once():
    once = settled(request("torque", {"core_count": 16, "memory_limit": 10**9, "wall_time_limit": 60}))
    assert settled(once) == once


def test_a_plan_settles_its_request_once(monkeypatch, blueprint):
    passes = []
    monkeypatch.setattr(allocate, "settled", lambda asked: passes.append(asked) or settled(asked))
    assert plan_blueprint(blueprint.service, Inputs()).plan.job.nodes == 1
    assert len(passes) == 1


@pytest.mark.parametrize("scheduler", ["slurm", "torque", "none"])
def test_an_array_is_refused_with_its_reason(scheduler):
    with pytest.raises(CannotPlan, match="a deployment follows one job") as caught:
        settled(request(scheduler, {"job_array": "0-9"}))
    assert caught.value.about == "job_options.job_array"


@pytest.mark.parametrize(
    "options",
    [
        {"account": "p"}, {"queue": "q"}, {"partition": "p"}, {"minimum_memory_per_processor": 1}, {"memory_limit": 1},
        {"request_specific_nodes": ("a",)}, {"architecture_constraint": "a"}, {"standard_output_file": "a"},
        {"standard_error_file": "a"}, {"copy_environment_variable": ("A",)},
        {"job_dependency": (JobDependency(kind="after", jobs=("1",)),)}, {"request_event_notification": ("end",)},
        {"email_address": ("a@b",)}, {"defer_job": datetime(2030, 1, 1)}, {"node_exclusive": True},
    ],
)  # fmt: skip
def test_without_a_scheduler_nothing_is_lost_in_silence(options):
    with pytest.raises(CannotPlan, match="cluster has no scheduler: .+") as caught:
        settled(request("none", options))
    assert caught.value.about == f"job_options.{next(iter(options))}"


def test_without_a_scheduler_what_the_script_does_itself_is_taken():
    made = settled(request("none", {"wall_time_limit": 60, "job_name": "mine", "core_count_per_process": 2}))
    assert (made.resources.walltime, made.resources.cores_per_process) == (60, 2)


def test_what_a_scheduler_cannot_be_told_names_the_option():
    with pytest.raises(CannotPlan, match="no singleton") as caught:
        make_plan(request("torque", {"job_dependency": (JobDependency(kind="singleton"),)}))
    assert caught.value.about == "job_options.job_dependency"


@pytest.mark.parametrize(
    ("asked", "about", "said"),
    [
        (request(options={"request_gpus": 1}), "resources.accelerators", "the partition cpu describes none"),
        (request(options={"node_count": 5}), "resources.nodes", "the partition cpu has 4"),
        (request(options={"queue": "gpu", "node_count": 3}), "resources.nodes", "the partition gpu has 2"),
        (request(options={"process_count_per_node": 9}), "resources.processes_per_node", "cpu has 8"),
        (
            request(options={"process_count_per_node": 4, "core_count_per_process": 4}),
            "resources.cores_per_process",
            "has 8",
        ),
    ],
)
def test_more_than_there_is(asked, about, said):
    found = list(resource_problems(asked))
    assert [each.about for each in found] == [about]
    assert said in found[0].message


def test_a_job_of_several_partitions_is_held_against_the_limits_of_all():
    """Slurm starts it in whichever is free first."""
    asked = request(options={"partition": "cpu,gpu", "request_gpus": 2, "node_count": 3})
    assert [(each.about, each.message) for each in resource_problems(asked)] == [
        ("resources.accelerators", "2 accelerators a node are asked for, and the partition cpu describes none"),
        ("resources.nodes", "3 nodes are asked for, and the partition gpu has 2"),
    ]
    made = make_plan(request(options={"partition": "cpu,gpu", "node_count": 2})).job
    assert made.partition == "cpu,gpu"
    assert "#SBATCH --partition=cpu,gpu\n" in made.script
    with pytest.raises(CannotPlan, match="cluster has no partition gpuu") as caught:
        make_plan(request(options={"partition": "cpu,gpuu"}))
    assert caught.value.hint == "did you mean gpu?"


def test_a_job_of_several_partitions_has_what_each_of_them_has():
    asked = request()
    cpu, gpu = asked.target.partitions
    more = (cpu.model_copy(update={"accelerators": None, "own_cores": True, "walltime": 60}), gpu)
    target = asked.target.model_copy(update={"partitions": more, "site": Site(partition="gpu,cpu")})
    found = target.partition(None)
    assert (found.name, found.nodes, found.cores, found.own_cores, found.walltime) == ("gpu,cpu", 2, 8, False, 60)
    assert target.accelerators_in(found) == 0  # the target says none, where the partition says nothing
    assert target.partition("gpu,other") is None


def test_a_queue_of_another_server_has_the_limits_of_its_name():
    asked = request("pbspro", {"queue": "gpu@east", "node_count": 3}, site={"launcher": "mpirun"})
    assert [each.message for each in resource_problems(asked)] == ["3 nodes are asked for, and the partition gpu has 2"]
    made = make_plan(request("pbspro", {"queue": "gpu@east", "node_count": 1})).job
    assert "#PBS -q gpu@east\n" in made.script


def test_a_project_is_pbs_professionals():
    assert "#PBS -P ab12\n" in make_plan(request("pbspro", {"project": "ab12"})).job.script
    for scheduler in ("slurm", "torque", "lsf"):
        with pytest.raises(CannotPlan, match="projects in addition to accounts") as caught:
            settled(request(scheduler, {"project": "ab12"}))
        assert (caught.value.about, caught.value.hint) == ("job_options.project", "account: ab12")


def test_an_image_for_gpus_on_a_partition_without():
    asked = request(options={"queue": "cpu"})
    asked = asked.model_copy(update={"optimisation": Optimisation(entry="pytorch-2.13-cuda")})
    with pytest.raises(CannotPlan, match="the job asks for none") as caught:
        make_plan(asked)
    assert caught.value.about == "optimisation.entry"


def test_an_affinity_is_a_preference_for_binding():
    program = HpcApplication(parallelisation="openmp", threads=4, affinity="spread")
    asked = request()
    application = asked.application.model_copy(update={"hpc": program})
    made = make_plan(asked.model_copy(update={"application": application}))
    assert {choice.name: choice.value for choice in made.choices}["binding"] == "cores"
    assert made.job.environment["OMP_PROC_BIND"] == "spread"
    assert made.job.environment["OMP_NUM_THREADS"] == "4"
