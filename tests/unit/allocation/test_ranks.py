"""What makes one training of several processes, or that nothing does."""

from __future__ import annotations

import pytest

from modak_ansible.allocation.allocate import allocate
from modak_ansible.allocation.limits import resource_problems
from modak_ansible.allocation.ranks import alone_of, ranks_of
from modak_ansible.errors import CannotPlan
from modak_ansible.model.application import Application, Optimisation, Resources
from modak_ansible.model.distributed import PREPARED, Distributed, Parallelism, mesh_of, meshes
from modak_ansible.model.job_options import JobOptions
from modak_ansible.model.request import Request
from modak_ansible.model.target import Partition, Processor, Scheduler, Site, Target

OWN = Parallelism(by="ranks", name="torch.distributed.init_process_group", place="train.py:3")
TF_CONFIG = Parallelism(by="tf_config", name="tensorflow.distribute.MultiWorkerMirroredStrategy", place="train.py:2")
SPAWN = Parallelism(by="spawn", name="torch.multiprocessing.spawn", place="train.py:9")
BY_OPTION = OWN.model_copy(update={"option": "--local_rank (train.py:7)"})
FIRST = BY_OPTION.model_copy(update={"is_first": True})
MPI = Parallelism(by="mpi", name="mpi4py.MPI", place="train.py:1")


def request(
    *, parallelism=None, scheduler="slurm", launcher=None, nodes=2, each=1, hosts=(), framework="pytorch", **application
):
    target = Target(
        name="cluster", scheduler=Scheduler(scheduler), site=Site(launcher=launcher), hosts=hosts,
        partitions=(Partition(name="batch", nodes=4, cores=8),) if scheduler != "none" else (),
    )  # fmt: skip
    said = application.pop("distributed", None)
    return Request(
        blueprint="example", training="train", target=target, optimisation=Optimisation(), parallelism=parallelism,
        application=Application(
            name="example", framework=framework, script="train.py",
            distributed=Distributed(**said) if said is not None else None, **application,
        ),
        resources=Resources(nodes=nodes, processes_per_node=each),
    )  # fmt: skip


def ranks(asked):
    return ranks_of(asked, asked.resources.layout)


@pytest.mark.parametrize(
    ("asked", "strategy", "reason"),
    [
        (request(parallelism=OWN), "own", "torch.distributed.init_process_group (train.py:3)"),
        (request(parallelism=OWN.model_copy(update={"nodes": 2, "processes_per_node": -1})), "own", "by itself"),
        (request(parallelism=OWN, prepares=True), "own", "by itself"),  # a trainer is reached, and parallel
        (request(parallelism=MPI), "mpi", "mpi4py.MPI (train.py:1)"),
        (request(prepares=True), "ddp", "modak_runtime.prepare"),
        (request(prepares=True, distributed_training=True), "ddp", "modak_runtime.prepare"),
        (request(prepares=True, distributed={"strategy": "ddp"}), "ddp", "asked for"),
        (request(prepares=True, distributed={"strategy": "fsdp"}), "fsdp", "asked for"),
        (request(prepares=True, distributed={"strategy": "tensor"}), "tensor", "asked for"),
        (request(prepares=True, distributed={"strategy": "pipeline"}), "pipeline", "asked for"),
        (
            request(prepares=True, each=3, distributed={"strategy": "tensor", "degree": 3}),
            "tensor_3", "2 copies of the model, data parallel, of 3 neighbours each",
        ),
        (request(prepares=True, each=4, distributed={"strategy": "pipeline", "degree": 2}), "pipeline_2", "4 copies"),
        (request(prepares=True, each=2, distributed={"strategy": "fsdp", "degree": 4}), "fsdp", "asked for"),
        (request(distributed_training=True), "own", "is declared"),
        (request(parallelism=SPAWN, distributed_training=True), "own", "train.py:9"),
        (request(parallelism=SPAWN, distributed={"strategy": "none"}), "none", "the whole model by itself"),
        (request(parallelism=BY_OPTION, distributed_training=True), "own", "by itself"),
        (request(parallelism=OWN.model_copy(update={"meets_at": "localhost (a.py:2)"}), nodes=1, each=2), "own", "by itself"),
        (request(parallelism=FIRST), "own", "by itself"),  # each is the first of its node
        (request(parallelism=BY_OPTION, arguments=(("local_rank", "0"),)), "own", "by itself"),
        (request(parallelism=TF_CONFIG, distributed_training=True), "own", "is declared"),
        (
            request(parallelism=TF_CONFIG.model_copy(update={"option": "train.py:5"}), distributed_training=True),
            "own", "is declared",
        ),
        (request(parallelism=TF_CONFIG), "own", "(train.py:2), which learns of all ranks from TF_CONFIG"),
        (request(distributed={"strategy": "none"}), "none", "the whole model by itself"),
        (request(distributed={"strategy": "mpi"}), "mpi", "asked for"),
    ],
)  # fmt: skip
def test_what_makes_them_one(asked, strategy, reason):
    found = ranks(asked)
    assert found.strategy == strategy
    assert reason in found.reason
    assert resource_problems(asked) == []


@pytest.mark.parametrize(
    ("asked", "about", "said"),
    [
        (request(), "resources.nodes", "2 processes of train.py would each train the whole model"),
        (request(nodes=1, each=2), "resources.processes_per_node", "nothing in its source"),
        (request(parallelism=OWN.model_copy(update={"nodes": 1})), "resources", "sets its nodes to 1, and the job has 2"),
        (
            request(nodes=1, each=2, parallelism=OWN.model_copy(update={"processes_per_node": 1})),
            "resources", "sets its processes on a node to 1, and the job has 2",
        ),
        (request(distributed={}), "resources.nodes", "nothing in its source"),
        (request(prepares=True, framework="tensorflow"), "resources.nodes", "nothing in its source"),
        (request(distributed={"strategy": "ddp"}), "distributed.strategy", "does not call it"),
        (request(prepares=True, framework="jax", distributed={"strategy": "ddp"}), "distributed.strategy", "uses jax"),
        (request(parallelism=OWN, distributed={"strategy": "ddp"}), "distributed.strategy", "train.py:3"),
        (request(distributed={"strategy": "fsdp"}), "distributed.strategy", "fsdp needs a PyTorch script that calls modak_runtime.prepare"),
        (
            request(prepares=True, distributed={"strategy": "tensor", "degree": 4}),
            "distributed.degree", "2 processes cannot be divided into groups of 4 ranks, each with a copy of the model",
        ),
        (request(prepares=True, distributed={"degree": 2}), "distributed.degree", "only fsdp, tensor"),
        (request(prepares=True, distributed={"strategy": "ddp", "degree": 2}), "distributed.degree", "have a degree"),
        (
            request(parallelism=TF_CONFIG.model_copy(update={"name": "tensorflow.distribute.ParameterServerStrategy"})),
            "resources.nodes", "(train.py:2) learns of its processes from TF_CONFIG, which is not set",
        ),
        (request(parallelism=TF_CONFIG, hosts=("two",)), "resources.nodes", "a folder that all nodes see"),
        (request(parallelism=SPAWN), "resources.nodes", "train.py starts its processes itself: torch.multiprocessing.spawn"),
        (request(parallelism=SPAWN, nodes=1, each=4), "resources.processes_per_node", "each of 4 would start all of them"),
        (request(parallelism=BY_OPTION), "resources.nodes", "from --local_rank (train.py:7) alone, and the job gives it in LOCAL_RANK"),
        (
            request(parallelism=FIRST.model_copy(update={"option": "--rank (train.py:7)"})),
            "resources.nodes", "from --rank (train.py:7) alone, and the job gives it in RANK",
        ),
        (
            request(parallelism=TF_CONFIG.model_copy(update={"option": "train.py:5"})),
            "resources.nodes", "train.py sets TF_CONFIG itself (train.py:5), to the same value in each of 2 processes",
        ),
        (request(parallelism=FIRST, nodes=1, each=2), "resources.processes_per_node", "all would have the same rank"),
        (
            request(parallelism=OWN.model_copy(update={"meets_at": "localhost (train.py:2)"})),
            "resources.nodes", "processes of train.py on 2 nodes would meet at localhost (train.py:2)",
        ),
        (request(parallelism=OWN, scheduler="torque"), "resources", "need a launcher"),
        (request(parallelism=MPI, scheduler="torque", nodes=1, each=2), "resources", "need a launcher"),
    ],
)  # fmt: skip
def test_what_cannot_be_one_is_refused(asked, about, said):
    problem = resource_problems(asked)[0]
    assert problem.about == about
    assert said in problem.message
    assert problem.hint


def test_ranks_of_tensorflow_are_told_where_all_are_unless_that_cannot_be():
    assert ranks(request(parallelism=TF_CONFIG)).tells_all
    assert ranks(request(parallelism=TF_CONFIG, distributed_training=True)).tells_all
    assert not ranks(request(parallelism=TF_CONFIG, distributed_training=True, hosts=("two",))).tells_all
    assert ranks(request(parallelism=TF_CONFIG, nodes=1, each=2, hosts=("two",))).tells_all
    assert not ranks(request(parallelism=OWN)).tells_all


def test_the_cures_are_named():
    with pytest.raises(CannotPlan) as caught:
        ranks(request())
    for cure in ("modak_runtime.prepare", "distributed_training: true", "strategy: none", "one process"):
        assert cure in caught.value.hint


def test_one_process_is_no_rank_and_one_node_needs_no_launcher():
    assert ranks(request(nodes=1, prepares=True, distributed={"strategy": "ddp"})) is None
    for scheduler in ("torque", "none"):
        assert resource_problems(request(parallelism=OWN, scheduler=scheduler, nodes=1, each=2)) == []
    assert resource_problems(request(parallelism=OWN, scheduler="torque", launcher="mpirun")) == []


def test_one_process_is_told_that_it_is_alone_where_it_would_end_otherwise():
    needing = OWN.model_copy(update={"needs_words": True})
    misled = OWN.model_copy(update={"asks_slurm": True})
    for asked, is_told in (
        (request(parallelism=needing, nodes=1), True),
        (request(parallelism=needing), False),  # the ranks are told by the job's script
        (request(parallelism=misled, nodes=1), True),
        (request(parallelism=misled, nodes=1, scheduler="torque"), False),
        (request(parallelism=OWN, nodes=1), False),
        (request(nodes=1), False),
    ):
        told = alone_of(asked, asked.resources.layout)
        assert bool(told) is is_told
        assert not told or (told["RANK"], told["WORLD_SIZE"], told["MASTER_ADDR"]) == ("0", "1", "127.0.0.1")


@pytest.mark.parametrize(
    ("numbers", "scheduler", "said"),
    [
        ({"nodes": 2}, "slurm", "sets its nodes to 2, and the job has 1"),
        ({"nodes": 2}, "none", "sets its nodes to 2"),  # it would wait for the second
        ({"processes_per_node": 4}, "slurm", "sets its processes on a node to 4, and the job has 1"),
        ({"processes_per_node": 4}, "none", ""),  # it starts the others itself
        ({"nodes": 1, "processes_per_node": -1}, "slurm", ""),
    ],
)
def test_one_process_is_what_the_source_says(numbers, scheduler, said):
    asked = request(parallelism=OWN.model_copy(update=numbers), nodes=1, scheduler=scheduler)
    problems = resource_problems(asked)
    assert [said in each.message for each in problems] == [True] * bool(said)
    unrelated = request(parallelism=asked.parallelism, nodes=1, distributed={"strategy": "none"})
    assert resource_problems(unrelated) == []


def test_one_process_listens_at_any_free_port_unless_it_asks_for_one():
    needing = OWN.model_copy(update={"needs_words": True})
    asking = needing.model_copy(update={"asks_port": True})
    ports = [
        int(alone_of(asked, asked.resources.layout)["MASTER_PORT"])
        for asked in (request(parallelism=needing, nodes=1), request(parallelism=asking, nodes=1))
    ]
    assert ports[0] == 0
    assert 20000 <= ports[1] < 40000


def test_lsf_starts_ranks_on_several_nodes_but_none_of_mpis():
    assert resource_problems(request(parallelism=OWN, scheduler="lsf")) == []
    assert "need a launcher" in resource_problems(request(parallelism=MPI, scheduler="lsf"))[0].message


def test_a_mesh_has_as_many_copies_and_readers_as_its_ranks_make():
    for name, degree, copies, readers in (
        ("ddp", 1, 12, 12), ("fsdp", 12, 1, 12), ("tensor", 12, 1, 1), ("fsdp_4", 4, 3, 12), ("pipeline_4", 4, 3, 3)
    ):  # fmt: skip
        mesh = mesh_of(name, 12)
        assert (mesh.name, mesh.degree, mesh.copies, mesh.readers) == (name, degree, copies, readers)
    assert mesh_of("own", 12) is None
    assert [mesh.name for mesh in meshes(4)] == [*PREPARED, "tensor_2", "pipeline_2"]
    assert [mesh.name for mesh in meshes(3)] == [*PREPARED]


@pytest.mark.parametrize(
    ("said", "ranks", "name"),
    [
        ({"strategy": "fsdp", "degree": 2}, 4, "fsdp_2"),
        ({"strategy": "tensor", "degree": 4}, 4, "tensor"),
        ({"strategy": "tensor", "degree": 2}, 3, None),
        ({"strategy": "ddp"}, 3, "ddp"),
        ({}, 4, None),
        ({"strategy": "mpi"}, 4, None),
    ],
)
def test_the_mesh_that_is_asked_for(said, ranks, name):
    found = Distributed(**said).mesh(ranks)
    assert (found.name if found else None) == name


def test_processes_are_shared_out_over_the_hosts_that_there_are():
    asked = request(prepares=True, scheduler="none", nodes=1, hosts=("two", "three"))
    target = asked.target.model_copy(update={"processor": Processor(cores=8)})
    for count, layout in ((16, (2, 8)), (24, (3, 8)), (32, None)):
        wanted = asked.model_copy(update={"target": target, "job_options": JobOptions(core_count=count)})
        if layout:
            resources = allocate(wanted).request.resources
            assert (resources.nodes, resources.processes_per_node) == layout
        else:
            (problem,) = resource_problems(wanted)
            assert problem.message.endswith("cluster has 3 nodes of 8 cores")
