"""What a request is refused for: the place, the reason, and what to write instead."""

from __future__ import annotations

import pytest

T = "optimisation/app_type-ai_training"
P = "optimisation/app_type-hpc"
GPU = "job_options/request_gpus"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        # unknown fields at any depth
        ("job_opions", {}, "5:0|there is no field|job has no field job_opions (did you mean job_options?)"),
        ("job_options/nodes", 3, "job.job_options has no field nodes (did you mean node_count?)"),
        (f"{T}/config/frameworks", "x", "app_type-ai_training.config has no field frameworks (did you mean ai_framework?)"),
        (f"{T}/data/etl", {"cach": True}, "data.etl has no field cach (did you mean cache?)"),
        # types and ranges
        ("job_options/node_count", 1.5, "job.job_options.node_count must be a whole number, not 1.5"),
        ("job_options/node_count", 0, "must be at least 1, not 0"),
        ("job_options/node_count", [1], "must be a whole number, not a list"),
        ("job_options/request_gpus", -1, "must be at least 0, not -1"),
        ("job_options/queue", True, "must be text, not true"),
        ("job_options", [], "job.job_options must be a mapping"),
        ("application/minimal_efficiency", 1.2, "must be at most 1, not 1.2"),
        ("application/threads", 0, "must be at least 1, not 0"),
        (f"{T}/config/ai_framework", "pytroch", "cannot be 'pytroch' (did you mean pytorch? valid: tensorflow, pytorch"),
        ("target/job_scheduler_type", "oar", "cannot be 'oar'"),
        (f"{T}/data/etl", {"cache": "some"}, "etl.cache must be true or false or a whole number, not 'some'"),
        ("application/arguments", {"epochs": 3}, "job.application.arguments must be text or a list, not a mapping"),
        # forms
        ("job_options/wall_time_limit", 12, "'12' is not a wall time"),
        ("job_options/wall_time_limit", "12:30", "'12:30' is not a wall time"),
        ("job_options/wall_time_limit", "00:61:00", "over the limit"),
        ("job_options/memory_limit", 4096, "has no unit"),
        ("job_options/memory_limit", "many", "is not a size"),
        ("job_options/job_array", "1-", "is not a list of indices (such as 0-9"),
        ("job_options/job_dependency", "1234", "is not what a job can wait for (a kind and ids, such as afterok:1234"),
        ("job_options/defer_job", "tomorrow", "is not a date with a time"),
        ("job_options/defer_job", "2026-11-22T03:00:00Z", "names a time zone"),
        ("job_options/request_event_notification", "events", "is not made of a (abort), b (begin) and e (end)"),
        ("job_options/email_address", "mail.com", "is not an address of mail"),
        ("job_options/copy_environment_variable", "A B-C", "B-C cannot be the name of an environment variable"),
        (f"{T}/ai_framework-pytorch/version", "newest", "is not a version or a range"),
        # what cannot be done
        ("optimisation/app_type", "ai_inference", "inference is not planned"),
        ("optimisation/app_type", "big_data", "big data is not planned"),
        (f"{T}/data/location", "s4://x/y", "is not an http, https or file address"),
        (f"{T}/data/location", "../away", "there is no file or folder ../away"),
        (f"{T}/data/location", "nowhere", "there is no file or folder nowhere"),
        (f"{T}/more_data", {"../x": {"location": "request.json"}}, "more_data.../x.name is refused: ../x cannot be a name"),
        ("application/container_runtime", "docker", "Docker is not run on cluster"),
        ("application/container_runtime", "Not An Image", "is neither a runtime nor an image"),
        ("application/executable", "train/trian.py", "there is no train/trian.py below the request's folder (did you mean train/train.py?"),
        ("application/executable", "mpirun -n 4 solver", "mpirun is added by the plan (name the program alone"),
        ("application/executable", None, "there is nothing to run"),
        ("application/arguments", "--epochs 3 | tee log", "job.application.arguments is refused: | is for a shell, but no shell reads this"),
        ("application/arguments", "--data $(pwd)", "another command in it is not run"),
        ("application/arguments", "--name 'a", "no closing quotation"),
        ("application/pre-execution", "a\u0007b", "holds a line break or another control character"),
        ("target", {"name": "clutser"}, "no target clutser is known (did you mean cluster?"),
        ("target", {"name": "xyzzy"}, "valid: cirrus, cluster, daint, egi, hlrs-testbed, local, pbs, testbed; or describe it in targets.yaml"),
        ("application/executable", "../train.py", "is not below the request's folder"),
        # contradictions
        (f"{T}/ai_framework-tensorflow", {"xla": True}, "ai_framework-tensorflow is refused: config.ai_framework is pytorch"),
        (f"{T}/ai_framework-pytorch", {"glow": True, "inductor": True}, "one compiler compiles"),
        (f"{T}/ai_framework-pytorch", {"version": ">3,<2"}, "the catalogue has no pytorch >3,<2 (it has 1.4.0, 2.10.0, 2.13.0, 2.14.1, 2.15.0)"),
        (P, {"config": {"parallelisation": "mpi"}}, "app_type-hpc is refused: the application is of type ai_training"),
        ("optimisation/app_type", "hpc", "the application is of type hpc"),
        ("application/app_type", "mpi", "mpi is a program, and optimisation asks for a training"),
        ("target/job_scheduler_type", "torque", "cluster is described with slurm, not torque"),
        ("optimisation", None, "nothing says which framework it needs"),
    ],
)  # fmt: skip
def test_refused(training, field, value, said):
    training.set(field, value)
    assert said.split("|")[-1] in training.mistakes


def test_a_size_without_a_unit_has_its_hint_once(training):
    training.set(f"{T}/data/size", "1e9")
    assert training.mistakes.count("write a number and a unit") == 1


def test_a_target_that_is_known_under_its_name_is_said_to_be(training, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "modak" / "targets").mkdir(parents=True)
    (tmp_path / "config" / "modak" / "targets" / "mine.yaml").write_text("scheduler: none\nfrontend: a.example\n")
    training.set("target", {"name": "mine"})
    assert "no target mine is known (--on mine uses the one of modak targets; or describe it in" in training.mistakes


def test_a_place_is_that_of_the_value(training):
    training.set("job_options/node_count", 0)
    line = next(n for n, text in enumerate(training.file.read_text().splitlines(), 1) if "node_count" in text)
    assert (
        training.mistakes
        == f"{training.file}:{line}:21: out-of-range: job.job_options.node_count must be at least 1, not 0"
    )


def test_all_mistakes_are_told_at_once(training):
    training.set("job_options/nodes", 1).set("optimisation/autotuning", {"tuner": "cresta"}).set("strict", True)
    training.set("application/mpi_ranks", 64).set("target/name", "clutser")
    assert len(training.mistakes.splitlines()) == 3  # ranks need the target
    training.set("target/name", "cluster")
    assert len(training.mistakes.splitlines()) == 3


def test_an_accelerator_that_is_ruled_out_is_not_asked_for(training):
    training.set(GPU, 1).set("optimisation/opt_build", {"cpu_type": "x86", "acc_type": "none"})
    assert "job.job_options.request_gpus is refused: opt_build.acc_type is none" in training.mistakes


def test_a_gpu_on_a_partition_without(training):
    from modak_ansible.errors import InvalidBlueprint

    training.set(GPU, 1).set("optimisation/opt_build", {"acc_type": "nvidia"})
    with pytest.raises(InvalidBlueprint, match=r"request.json:\d+:23: cannot-plan: .*batch describes none"):
        _ = training.plan
    training.set("job_options/partition", "gpu")
    assert training.plan.image.entry == "pytorch-2.13-cuda"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (f"{P}/parallelisation-mpi/scaling_efficiency", 1.01, "must be at most 1, not 1.01"),
        (f"{P}/parallelisation-mpi/scaling_efficiency", 0, "must be more than 0, not 0"),
        (f"{P}/parallelisation-openacc", {"number_of_acc": 1}, "config.parallelisation is mpi"),
        (f"{P}/config/parallelisation", "opencl", "opencl needs an accelerator, and the job asks for none"),
        (f"{P}/config/parallelisation", "opencl", "no build in the catalogue has opencl"),
        ("application/build", {"src": "rm -rf /", "build_command": "make"}, "is not the address of a git repository"),
        ("application/build", {"src": "https://example.org/x.git"}, "build.build_command is needed"),
        ("application/app_type", "ai_training", "it is a training, and optimisation asks for a program"),
        ("job_options/node_count", 3, "8 is not a multiple of node_count, 3"),
        ("job_options/process_count_per_node", 3, "8 is not a multiple of process_count_per_node, 3"),
    ],
)  # fmt: skip
def test_a_program_is_refused(program, field, value, said):
    program.set(field, value)
    assert said in program.mistakes
