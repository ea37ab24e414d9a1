"""Requests of the kinds that users of the first MODAK had: every one is planned, with notes."""

from __future__ import annotations

MAIL = {"request_event_notification": "abe", "email_address": "someone@example.org"}
FILES = {"standard_output_file": "heat.out", "standard_error_file": "heat.err", "combine_stdout_stderr": True}
TUNER = {"enable_autotuning": True, "autotuning": {"tuner": "cresta", "input": "heat.tune"}}
BUILD = {"src": "https://example.org/heat/heat.c", "build_command": "mpicc -o heat -fopenmp heat.c"}
OPTIONS = {
    "job_name": "heat",
    "wall_time_limit": "1:00:00 ",
    "node_count": 2,
    "process_count_per_node": 40,
    **MAIL,
    **FILES,
}


def mpi(library="mpich", version="3.1.4"):
    return {
        "config": {"parallelisation": "mpi"},
        "data": {},
        "parallelisation-mpi": {"library": library, "version": version},
    }


def given(**fields):
    return {name: value for name, value in fields.items() if value is not None}


def program(options=(), application=(), optimisation=(), **more):
    return {"job": {
        "job_options": {**OPTIONS, "core_count": 40, **dict(options)},
        "application": {"app_type": "hpc", "executable": "./heat", "arguments": "", "mpi_ranks": 80, "threads": 2,
                        "build": BUILD, **dict(application)},
        "optimisation": given(**{
            "enable_opt_build": True, "enable_autotuning": False, "app_type": "hpc",
            "opt_build": {"cpu_type": "x86", "acc_type": ""}, "app_type-hpc": mpi(), **dict(optimisation),
        }),
        **more,
    }}  # fmt: skip


def training(options=(), application=(), **more):
    section = {
        "config": {"ai_framework": "tensorflow"},
        "data": {},
        "ai_framework-tensorflow": {"version": "2.1", "xla": True},
    }
    return {"job": {
        "job_options": {"job_name": "forest", "wall_time_limit": "12:00:00", "node_count": 1, "core_count": 40,
                        "process_count_per_node": 40, "request_gpus": 1, **MAIL, **dict(options)},
        "application": {"app_type": "python", "executable": "python3 forest/train_main.py",
                        "arguments": "--data_dir=/mnt/data/records/ -batch_size=96 --use_synthetic_data=false", **dict(application)},
        "optimisation": {"enable_opt_build": True, **TUNER, "app_type": "ai_training",
                         "opt_build": {"cpu_type": "x86", "acc_type": "nvidia"}, "app_type-ai_training": section},
        **more,
    }}  # fmt: skip


BARE = {
    "app_type-hpc": None,
    "opt_build": None,
    "app_name": "openmpi",
    "arch_build": {"cpu_type": "x86"},
    "app_build": {"version": "3.1.3"},
}
ON_SLURM = {"qos": "standard", "queue": "standard", "request_event_notification": "ALL", "node_exclusive": True}
SINGLE = {"core_count": None, "process_count_per_node": 1}
IMAGE = "docker://example/mpich:314"
DOCUMENTS = {
    "a named image": program(application={"container_runtime": IMAGE}),
    "fewer ranks": program({}, {"mpi_ranks": 40, "threads": 1}, TUNER),
    "torque": program(target={"job_scheduler_type": "torque"}, optimisation={"opt_build": {"cpu_type": "x86", "acc_type": "nvidia"}}),
    "egi": program(SINGLE, target={"name": "egi", "job_scheduler_type": "slurm"}, optimisation={"app_type-hpc": mpi("openmpi", "1.10")}),
    "cirrus": program({**SINGLE, **ON_SLURM}, {"build": None}, BARE, target={"name": "cirrus", "job_scheduler_type": "slurm"}),
    "daint": program({**SINGLE, "architecture_constraint": "mc"}, optimisation=BARE, target={"name": "daint"}),
    "variables": program(application={"executable": "${HEAT_ROOT}/bin/heat ", "arguments": "${HEAT_ROOT}/in.py \\\n-n 1",
                                      "mpi_ranks": 40, "threads": 1}),
    "a training": training(),
    "a training with torque": training(target={"job_scheduler_type": "torque"}),
    "a training in an image": training({"request_specific_nodes": "ssd"}, {"container_runtime": "example/tf:2.1-gpu"}),
    "no optimisation": {"job": {**training({"queue": "ssd"}, {"container_runtime": "docker://example"},
                                           target={"name": "hlrs_testbed", "job_scheduler_type": "torque"})["job"], "optimisation": None}},
    "a container": {"name": "osu", "container_file": "example/osu:1", "image_type": "docker", "app_name": "mvapich", "version": "2.2",
                    "build": {"enable_opt_build": True, "cpu_type": "x86"}, "optimisation": {"mpicc": "true"}},
}  # fmt: skip
