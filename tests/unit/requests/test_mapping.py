"""What a request's fields come to in the model."""

from __future__ import annotations

import json
import re

import pytest

from modak_ansible.errors import InvalidBlueprint
from modak_ansible.model.application import Build
from modak_ansible.model.request import Request
from modak_ansible.model.scaled import Scale
from modak_ansible.planning.service import plan_blueprint, request_of
from modak_ansible.reading.blueprint.reader import Inputs

T = "optimisation/app_type-ai_training"
P = "optimisation/app_type-hpc"


@pytest.mark.parametrize("framework", ["python", "jax"])
def test_every_framework_of_the_catalogue_can_be_asked_for(training, framework):
    training.set(f"{T}/config/ai_framework", framework).set(f"{T}/ai_framework-pytorch", None)
    assert training.request.application.framework == framework


def test_an_application_in_python_that_names_no_framework_needs_none(training):
    training.set("application/app_type", "python").set("application/arguments", None)
    training.set("optimisation", None)
    assert training.request.application.framework == "python"


def test_a_training(training):
    request = training.request
    assert (request.blueprint, request.training) == ("mnist", "mnist-training")
    application = request.application
    assert (application.framework, application.version) == ("pytorch", "2.13")
    assert (application.folder, application.script) == ("train", "train.py")
    assert application.arguments == (("epochs", "3"), ("data", "{dataset}"))
    work = application.work
    assert (work.samples, work.sample_bytes, work.parameters, work.epochs) == (60000, 784, 1199882, 3)
    assert request.dataset.name == "mnist"
    assert [source.kind for source in request.dataset.sources] == ["published", "digits"]
    assert training.warnings == ""


def test_a_request_is_the_same_after_json(training, program):
    for folder in (training, program):
        request = folder.request
        assert Request.model_validate_json(request.model_dump_json()) == request


def test_checkpoints(training):
    training.set("checkpoint", {"every": 60})
    asked = training.request.checkpoint
    assert (asked.every, asked.signal_before_wall, asked.requeue) == (60, 120, 3)
    training.set("checkpoint/signal_before_wall", 36 * 3600)
    with pytest.raises(InvalidBlueprint) as caught:
        plan_blueprint(training.file, Inputs())
    (mistake,) = caught.value.mistakes
    assert training.file.read_text().splitlines()[mistake.location.line - 1].strip().startswith('"signal_before_wall"')


def test_yaml_says_the_same(training):
    import yaml

    first = training.plan
    other = training.path / "request.yaml"
    training.file.unlink()
    other.write_text(yaml.safe_dump(training.content))
    assert plan_blueprint(other, Inputs()).plan.digest == first.digest


def test_a_plan_of_a_request_does_not_depend_on_its_folder(training, tmp_path):
    first = training.plan
    moved = training.path.rename(tmp_path / "elsewhere")
    assert plan_blueprint(moved / "request.json", Inputs()).plan.digest == first.digest


@pytest.mark.parametrize(
    ("field", "value", "name", "preference"),
    [
        ("application/threads", 2, "threads", 2),
        ("optimisation/enable_autotuning", True, "autotuning", True),
        ("optimisation/enable_opt_build", True, "build", "opt-build"),
        ("optimisation/enable_opt_build", False, "build", "pip"),
        (f"{T}/data/etl", {"cache": True}, "input", "memory"),
        (f"{T}/data/etl", {"cache": 0}, "input", "stock"),
        (f"{T}/data/etl", {"prefetch": True}, "workers", 1),
        (f"{T}/data/etl", {"prefetch": False}, "workers", 0),
        (f"{T}/ai_framework-pytorch/inductor", True, "compiler", "inductor"),
        (f"{T}/ai_framework-pytorch/inductor", False, "compiler", "none"),
    ],
)
def test_preferences(training, field, value, name, preference):
    training.set(field, value)
    assert getattr(training.request.optimisation, name) == preference


def test_an_efficiency_is_the_short_form_of_a_scale(training):
    assert training.request.scale is None
    training.set("application/minimal_efficiency", 0.5)
    assert training.request.scale == Scale(minimal_efficiency=0.5)
    training.set("scale", {"objective": "cost", "minimal_efficiency": 0.8, "at_most": 64})
    assert training.request.scale == Scale(objective="cost", minimal_efficiency=0.8, at_most=64)


@pytest.mark.parametrize(
    ("backend", "entry"),
    [("tensorflow", "keras-3.15-tensorflow-cpu"), ("pytorch", "keras-3.15-pytorch-cpu"), ("jax", "keras-3.15-jax-cpu")],
)
def test_kerass_backend_chooses_the_entry(training, backend, entry):
    training.set(f"{T}/config/ai_framework", "keras").set(f"{T}/ai_framework-pytorch", None)
    training.set(f"{T}/ai_framework-keras", {"backend": backend})
    assert training.plan.image.entry == entry
    training.set(f"{T}/ai_framework-keras", {"backend": "mxnet"})
    assert "computes with mxnet (valid: jax, pytorch, tensorflow)" in training.warnings


def test_job_options(training):
    for name, value in {
        "account": "project", "memory_limit": "4 GB", "minimum_memory_per_processor": None, "node_exclusive": True,
        "request_specific_nodes": "n1", "architecture_constraint": "zen5", "copy_environment": True,
        "copy_environment_variable": "A, B=2", "job_dependency": "afterok:12:13,singleton", "defer_job": "202611220300",
    }.items():  # fmt: skip
        training.set(f"job_options/{name}", value)
    options = training.request.job_options
    assert (options.account, options.memory_limit, options.node_exclusive) == ("project", 4 * 10**9, True)
    assert options.request_specific_nodes == ("n1",)
    assert options.copy_environment_variable == ("A", "B=2")
    assert [(each.kind, each.jobs) for each in options.job_dependency] == [("afterok", ("12", "13")), ("singleton", ())]
    assert options.defer_job.isoformat() == "2026-11-22T03:00:00"
    script = training.plan.job.script
    for directive in (
        "--account=project", "--mem=3815M", "--exclusive", "--nodelist=n1", "--constraint=zen5",
        "--dependency=afterok:12:13,singleton", "--begin=2026-11-22T03:00:00",
    ):  # fmt: skip
        assert f"#SBATCH {directive}" in script


@pytest.mark.parametrize(
    ("size", "count"), [("16gb", 16 << 30), ("16G", 16 << 30), ("16 GB", 16 * 10**9), ("16 GiB", 16 << 30)]
)
def test_sizes_are_read_as_whoever_writes_them_so_means_them(training, size, count):
    training.set("job_options/memory_limit", size)
    assert training.request.job_options.memory_limit == count


def test_processes_of_a_training_that_is_one_process_are_cores(training):
    """A job of the first MODAK asked for the cores of its one process so."""
    training.set("job_options/process_count_per_node", 8).set("job_options/core_count_per_process", None)
    training.set("job_options/core_count", 8)
    job = training.plan.job
    assert (job.nodes, job.processes_per_node, job.cores_per_process) == (1, 1, 8)
    assert "1 of 8 processes run: each gets 8 cores" in training.warnings


def test_how_processes_are_one_training_is_said_in_a_request_too(training):
    training.set("job_options/process_count_per_node", 2).set("job_options/node_count", 2)
    training.set(f"{T}/config/distributed", {"strategy": "none", "timeout": 60, "interface": "ib0"})
    said = training.request.application.distributed
    assert (said.strategy, said.timeout, said.interface) == ("none", 60, "ib0")
    assert not training.request.application.distributed_training
    job = training.plan.job
    assert (job.nodes, job.processes_per_node) == (2, 2)
    assert "MASTER_ADDR" not in job.script
    training.set(f"{T}/config/distributed", {"interface": "ib0; reboot"})
    assert "is not a network interface's name" in training.mistakes


def test_a_distributed_training_has_all_its_processes(training):
    training.set("job_options/process_count_per_node", 2).set("job_options/node_count", 2)
    training.set(f"{T}/config/distributed_training", True)
    job = training.plan.job
    assert (job.nodes, job.processes_per_node, job.cores_per_process) == (2, 2, 4)
    assert training.request.application.distributed_training
    training.set(f"{T}/config/distributed_training", False)
    assert "distributed_training: true starts one in every place" in training.mistakes


def test_data_that_is_on_the_target_is_bound_and_named(training):
    training.set(f"{T}/data/location", "/lustre/images")
    plan = training.plan
    assert [(source.kind, source.location) for source in plan.dataset.sources] == [("on_target", "/lustre/images")]
    assert '--bind "$dataset:$dataset:ro"' in plan.job.script
    assert '--data "$dataset"' in plan.job.script
    assert [staged for staged in plan.staging if staged.what == "dataset"] == []


def test_data_that_is_staged_does_not_travel_beside_a_command_too(training):
    (training.path / "images").mkdir()
    for name in ("images/a.png", "run.sh"):
        (training.path / name).write_bytes(b"1234")
    training.set("application/executable", "bash run.sh").set("application/arguments", "{dataset}")
    training.set(f"{T}/data/location", "images").set(f"{T}/data/basedata", "CIFAR")
    paths = [file.path for file in training.request.application.files]
    assert "run.sh" in paths
    assert "images/a.png" not in paths


def test_data_beside_the_request_is_staged(training):
    folder = training.path / "images"
    folder.mkdir()
    training.set(f"{T}/data/location", "images").set(f"{T}/data/basedata", "CIFAR")
    assert "there are no files in the folder images" in training.mistakes
    (folder / "train-images-idx3-ubyte").write_bytes(b"1234")
    (source,) = training.request.dataset.sources
    assert (source.kind, source.location, training.request.dataset.name) == ("folder", "images", "cifar")


@pytest.mark.parametrize("location", [f"/{'a' * 300}", f"/{'数据' * 60}"])
def test_a_path_that_no_file_of_this_machine_can_have_is_the_targets(training, location):
    training.set("optimisation/app_type-ai_training/data", {"location": location})
    request, mistakes, _ = training.read()
    assert request or any("cannot be a path on the target" in each for each in mistakes)


def test_a_program_of_a_name_that_no_file_has_is_the_targets(program):
    program.set("application/executable", "a" * 300)
    assert program.request.application.command == ("a" * 300,)


def test_data_without_a_name_does_not_take_the_place_of_the_first(training):
    section = "optimisation/app_type-ai_training"
    training.set(f"{section}/data", {"location": "request.json", "name": "first"})
    training.set(f"{section}/more_data", {"": {"location": "targets.yaml"}})
    assert [dataset.name for dataset in training.request.datasets] == ["first", "data"]


def test_the_data_that_is_used_is_there(training):
    training.set(f"{T}/data", None)
    assert "{dataset} is used, and there is no data" in training.mistakes


def test_an_image_of_the_users(training):
    training.set("application/container_runtime", "tensorflow/tensorflow:2.1.0-gpu-py3")
    assert training.request.image.source == "docker://tensorflow/tensorflow:2.1.0-gpu-py3"
    training.set("optimisation/enable_opt_build", True)
    assert training.request.image is None
    assert "is not taken, because enable_opt_build asks for a build: pytorch-2.13-cpu" in training.warnings


def test_a_container_runtime(training):
    training.set("application/container_runtime", "singularity")
    assert training.request.target.container_runtime == "singularity"


def test_without_a_name_the_scheduler_says_which_shipped_target(training):
    training.set("target", {"job_scheduler_type": "torque"})
    target = training.request.target
    assert (target.name, target.address, target.scheduler.value) == ("torque", "testbed", "torque")
    inputs = Inputs(None, (("frontend", "login.example"), ("username", "bob")))
    (training.path / "targets.yaml").unlink()
    target = request_of(training.file, inputs).target
    assert (target.address, target.username) == ("login.example", "bob")
    training.set("target", None).set("job_options", {"wall_time_limit": "0:10:00"})
    assert training.request.target.local


def test_a_target_of_another_file(training, tmp_path):
    file = tmp_path / "mine" / "hpc.yaml"
    file.parent.mkdir()
    (training.path / "types").rename(file.parent / "types")
    (training.path / "targets.yaml").rename(file)
    request = request_of(training.file, Inputs(targets=file))
    assert request.target.address == "frontend.example"


def test_a_request_for_an_image_alone(training):
    training.file.write_text(json.dumps({"optimisation": training.content["job"]["optimisation"]}))
    plan = training.plan
    assert plan.image.entry == "pytorch-2.13-cpu"
    training.file.write_text(json.dumps({"optimisation": {"enable_opt_built": True}, "target": {"name": "local"}}))
    assert "1:19: unknown-field: optimisation has no field enable_opt_built" in training.mistakes
    assert "target is next to optimisation" in training.mistakes


# --- programs


def test_a_program_with_mpi(program):
    request = program.request
    hpc = request.application.hpc
    assert (request.application.framework, hpc.parallelisation, hpc.ranks, hpc.library) == ("mpi", "mpi", 8, "openmpi")
    job = program.plan.job
    assert job.nodes * job.processes_per_node == 8
    assert "srun" in job.script


def test_ranks_may_share_cores(program):
    program.set("job_options/node_count", 1).set("job_options/process_count_per_node", 4)
    assert "8 processes are more than 1 x 4, which the job asks for: 4 run" in program.warnings
    assert program.request.application.hpc.ranks == 4
    program.set(f"{P}/parallelisation-mpi/core_subscription", 2)
    assert (program.mistakes, program.warnings) == ("", "")


def test_a_program_with_openmp_that_is_built_first(program):
    program.set("optimisation", {"app_type-hpc": {
        "config": {"parallelisation": "openmp"}, "parallelisation-openmp": {"number_of_threads": 8, "affinity": "block"},
    }}).set("application", {
        "app_type": "hpc", "executable": "./sum", "arguments": "10 'a b'", "pre-execution": "ulimit -s unlimited",
        "build": {"src": "https://example.org/sum.tar.gz", "build_command": "make -j {{BUILD_PARALLELISM}}", "build_parallelism": 4},
    })  # fmt: skip
    application = program.request.application
    assert application.command == ("./sum", "10", "a b")
    assert application.build == Build(
        source="https://example.org/sum.tar.gz", kind="archive", command="make -j 4", parallelism=4
    )
    assert application.pre_execution == ("ulimit -s unlimited",)
    assert (application.framework, application.hpc.affinity, application.hpc.threads) == ("native", "close", 8)
    script = program.plan.job.script
    assert "OMP_NUM_THREADS=8" in script
    assert "OMP_PROC_BIND=close" in script
    assert "block is an older spelling (write close)" in program.warnings


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("https://example.org/repo.git", "git"),
        ("https://example.org/group/repo", "git"),
        ("https://github.com/ggml-org/llama.cpp", "git"),
        ("https://github.com/ggml-org/llama.cpp/archive/b1.zip", "archive"),
        ("https://raw.githubusercontent.com/a/b/main/llama.cpp", "file"),
        ("git@example.org:group/repo.git", "git"),
        ("https://example.org/solver-1.2.tar.gz", "archive"),
        ("https://example.org/xthi.c", "file"),
        ("https://example.org/xthi.tgz?raw=1", "archive"),
        ("https://example.org/a.f90?raw=1", "file"),
        ("file:///data/src.zip", "archive"),
    ],
)
def test_sources(program, source, kind):
    program.set("application/build", {"src": source, "build_command": "make"})
    program.set("application/container_runtime", "none")
    program.set(f"{P}/parallelisation-mpi", None)
    assert program.request.application.build.kind == kind


def test_a_file_that_a_program_reads_travels_with_it(program):
    (program.path / "mesh.dat").write_text("1")
    (program.path / "other.dat").write_text("1")
    program.set("application/executable", "solver mesh.dat").set("application/container_runtime", "none")
    program.set(f"{P}/parallelisation-mpi", None)
    assert [file.path for file in program.request.application.files] == ["mesh.dat"]
    program.set(f"{P}/data", {"location": "other.dat"})
    assert [file.path for file in program.request.application.files] == ["mesh.dat", "other.dat"]


EVERYTHING = ["mesh.dat", "pkg/solve.py", "pkg/tools.py", "run.sh", "train/train.py"]


@pytest.mark.parametrize(
    ("executable", "files"),
    [
        ("python -m pkg.solve mesh.dat", EVERYTHING),
        ("bash ./run.sh", EVERYTHING),
        ("torchrun --nproc_per_node=2 pkg/solve.py", EVERYTHING),
        ("python -m json.tool mesh.dat", ["mesh.dat"]),
    ],
)
def test_what_a_command_starts_of_ones_own_travels_with_all_beside_it(program, executable, files):
    (program.path / "pkg").mkdir()
    for name in ("pkg/solve.py", "pkg/tools.py", "run.sh", "mesh.dat"):
        (program.path / name).write_text("1")
    program.set("application/executable", executable).set("application/container_runtime", "none")
    program.set(f"{P}/parallelisation-mpi", None)
    assert [file.path for file in program.request.application.files] == files


def test_variables_of_the_node_are_replaced_there(program):
    program.set("application/executable", "${ROOT}/bin/aster").set("application/container_runtime", "none")
    program.set("application/arguments", "${ROOT}/x.py \\\n--name 'a; b'").set(f"{P}/parallelisation-mpi", None)
    assert program.request.application.command == (
        "bash",
        "-c",
        'exec "${ROOT}"/bin/aster "${ROOT}"/x.py --name \'a; b\'',
    )
    assert re.search(r"'exec \"\$\{ROOT\}\"", program.plan.job.script)


def test_a_program_is_compiled_for_the_target_or_not_at_all(program):
    program.set("optimisation/enable_opt_build", True)
    assert "nothing is compiled for the target (application.build says how)" in program.warnings
    assert program.request.optimisation.build == "any"
