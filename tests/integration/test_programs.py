"""Programs that are no trainings, and what requests ask of the scheduler for them, on the real cluster.

Images with an MPI library are made once, which takes minutes, and kept for later runs as those of frameworks are.
"""

from __future__ import annotations

import json
import shlex
import uuid
from pathlib import Path

import pytest
from cluster import ROOT, modak
from workers import borrowed_images

pytestmark = pytest.mark.testbed

HELLO = """\
import os, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
# in one piece: print writes the end of the line by itself where nothing is buffered, and lines of two ranks get mixed up
sys.stdout.write(f"rank {world.rank} of {world.size} on {MPI.Get_processor_name()} {os.environ.get('LEVEL')}\\n")
sys.stdout.flush()
total = world.allreduce(world.rank + 1)
if world.rank == 0:
    sys.stdout.write(f"sum {total}\\n")
"""
MPI = {"app_type": "hpc", "app_type-hpc": {"config": {"parallelisation": "mpi"}}}


class RequestFolder:
    """A folder with a request and its files."""

    def __init__(self, path: Path, testbed) -> None:
        self.path, self.testbed = path, testbed
        (path / ".modak").mkdir(parents=True)
        (path / ".modak" / "testbed").symlink_to(testbed.folder)
        self.name = f"test-{uuid.uuid4().hex[:8]}"
        self.options = {"wall_time_limit": "00:05:00"}
        self.application = {"app_tag": self.name, "app_type": "mpi", "executable": "hello.py"}
        self.optimisation = MPI
        self.target = {"name": "testbed", "job_scheduler_type": "slurm"}
        (path / "hello.py").write_text(HELLO)

    def write(self) -> Path:
        job = {
            "job_options": self.options, "target": self.target, "application": self.application,
            "optimisation": self.optimisation,
        }  # fmt: skip
        file = self.path / "request.json"
        file.write_text(json.dumps({"job": job}))
        return file

    def plan(self) -> dict:
        shown = modak("plan", self.write(), "--json", cwd=self.path)
        assert shown.returncode == 0, shown.stderr
        return json.loads(shown.stdout)

    def deploy(self):
        image = self.plan()["image"] or {"layers": []}
        with borrowed_images(self.testbed, {layer["digest"] for layer in image["layers"][-1:]}):
            return modak("deploy", self.write(), cwd=self.path)

    @property
    def deployment(self) -> str:
        plan = self.plan()
        return f"{plan['name']}-{plan['digest'][:12]}"

    def output(self, name: str = "output.log") -> str:
        return (self.path / ".modak" / "deployments" / self.deployment / "results" / name).read_text()


@pytest.fixture
def request_folder(tmp_path, testbed):
    made = RequestFolder(tmp_path / "project", testbed)
    yield made
    modak("undeploy", made.path / "request.json", cwd=made.path)


def test_two_ranks_on_two_nodes(request_folder, testbed):
    request_folder.options.update(
        node_count=2, process_count_per_node=1, standard_output_file="all.txt", copy_environment_variable=["LEVEL=7"],
        job_name=request_folder.name,
    )  # fmt: skip
    request_folder.application |= {
        "mpi_ranks": 2, "threads": 1, "pre-execution": "echo before on $(hostname)", "post-execution": "echo after",
    }  # fmt: skip
    done = request_folder.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    launcher = next(choice["value"] for choice in request_folder.plan()["choices"] if choice["name"] == "launcher")
    assert launcher.startswith("srun --mpi=pmix ")
    lines = request_folder.output().splitlines()
    assert lines[0] == "before on node01"
    assert sorted(lines[1:-1]) == ["rank 0 of 2 on node01 7", "rank 1 of 2 on node02 7", "sum 3"]
    assert lines[-1] == "after"
    # the user's own file holds all of it, and the queue knew the job by the user's own name
    everything = testbed.ssh(f"cat modak/deployments/{request_folder.deployment}/all.txt")
    assert set(lines) <= set(everything.splitlines())
    assert len(testbed.jobs(request_folder.name)) == 1


@pytest.mark.thorough
def test_ranks_share_a_core_by_the_images_own_launcher(request_folder):
    request_folder.target["job_scheduler_type"] = "torque"
    request_folder.options.update(node_count=1)
    request_folder.application["mpi_ranks"] = 2
    request_folder.optimisation = {
        "app_type": "hpc",
        "app_type-hpc": {
            "config": {"parallelisation": "mpi"},
            "parallelisation-mpi": {"library": "openmpi", "core_subscription": 2},
        },
    }
    plan = request_folder.plan()
    assert (plan["job"]["nodes"], plan["job"]["processes_per_node"]) == (1, 1)
    done = request_folder.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    lines = sorted(request_folder.output().splitlines())
    assert [line.split(" on ")[0] for line in lines] == ["rank 0 of 2", "rank 1 of 2", "sum 3"]


@pytest.mark.thorough
def test_a_line_before_the_program_that_fails_ends_the_job(request_folder):
    request_folder.application |= {"mpi_ranks": 1, "pre-execution": ["echo first", "(exit 9)", "echo never"]}
    done = request_folder.deploy()
    assert done.returncode == 5, done.stdout + done.stderr
    assert "exit code 9" in done.stdout + done.stderr
    assert request_folder.output() == "first\n"


COMPILED = """\
#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
int main(int n, char **words) {
    int rank, size, length, threads = 0, one = 1, sum;
    char version[MPI_MAX_LIBRARY_VERSION_STRING], node[MPI_MAX_PROCESSOR_NAME], cores[99] = "";
    cpu_set_t mine;
    MPI_Init(&n, &words);
    MPI_Get_processor_name(node, &length);
    sched_getaffinity(0, sizeof mine, &mine);
    for (int core = length = 0; core < CPU_SETSIZE && length < 90; core++)
        if (CPU_ISSET(core, &mine)) length += sprintf(cores + length, length ? ",%d" : "%d", core);
    #pragma omp parallel reduction(+ : threads)
    threads += 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Get_library_version(version, &length);
    printf("rank %d of %d on %s, sum %d, threads %d of %s, cores %s, %.5s\\n", rank, size, node, sum, threads,
           getenv("OMP_NUM_THREADS"), cores, version);
    return MPI_Finalize();
}
"""

CORES = shlex.quote("echo $(hostname) $(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)), sep=chr(44))')")


@pytest.fixture(params=["openmpi", "mpich"])
def compiled(request, request_folder):
    """A program that is built in the catalogue's image with the compilers of an MPI library."""
    (request_folder.path / "hello.c").write_text(COMPILED)
    request_folder.options.update(node_count=2, process_count_per_node=1)
    build = {"build_command": "mpicc -fopenmp -o hello hello.c"}
    request_folder.application |= {"executable": "./hello", "mpi_ranks": 2, "threads": 1, "build": build}
    section = {"config": {"parallelisation": "mpi"}, "parallelisation-mpi": {"library": request.param}}
    request_folder.optimisation = {"app_type": "hpc", "app_type-hpc": section}
    return request.param


@pytest.mark.thorough
def test_a_program_is_compiled_in_the_image_and_runs_on_two_nodes(compiled, request_folder, testbed):
    """What its processes see: each the cores of its node, and the threads that were asked for."""
    done = request_folder.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    named = {"openmpi": "Open ", "mpich": "MPICH"}[compiled]
    cores = dict(line.split() for line in testbed.ssh(f"srun -N2 sh -c {CORES}").splitlines())
    lines = sorted(line.rstrip() for line in request_folder.output().splitlines())
    assert lines == [
        f"rank {rank} of 2 on node0{rank + 1}, sum 2, threads 1 of 1, cores {cores[f'node0{rank + 1}']}, {named}".rstrip()
        for rank in (0, 1)
    ]


TARGETS = """\
tosca_definitions_version: tosca_simple_yaml_1_3
imports: [ types/modak.yaml ]
topology_template:
  node_templates:
    box:
      type: modak.nodes.Slurm
      attributes: { public_address: testbed }
      properties:
        partitions:
          - { name: debug, nodes: 2, cores: 1, memory: 4000 MB }
          - { name: short, nodes: 2, cores: 1, memory: 4000 MB, walltime: "00:10:00" }
      capabilities:
        site:
          properties:
            rules:
              - name: greet
                when: { mpi: true, nodes: ">1" }
                then: { pre: [ 'echo "site $UNSET"', "export LEVEL=9" ], post: [ 'echo "saw $MODAK_EXIT_CODE"' ] }
              - { name: brief, when: { app_type: [ hpc ] }, then: { partition: short } }
              - { name: gpus, when: { accelerator: [ nvidia ] }, then: { modules: [ cuda/12.4 ] } }
"""


@pytest.mark.thorough
def test_a_sites_rules(request_folder, testbed):
    (request_folder.path / "types").symlink_to(ROOT / "tosca" / "types")
    (request_folder.path / "targets.yaml").write_text(TARGETS)
    request_folder.target = {"name": "box"}
    request_folder.application["mpi_ranks"] = 2
    request_folder.options["job_dependency"] = "singleton"
    choice = next(choice for choice in request_folder.plan()["choices"] if choice["name"] == "site_rules")
    assert choice["value"] == "greet, brief"
    done = request_folder.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    lines = request_folder.output().splitlines()
    assert (lines[0], lines[-1]) == ("site ", "saw 0")
    assert sorted(lines[1:-1]) == ["rank 0 of 2 on node01 9", "rank 1 of 2 on node02 9", "sum 3"]
    told = testbed.ssh(f"sacct -n -P -X --starttime=now-1days --name={request_folder.name} --format=Partition")
    assert told == "short"


def test_a_program_is_built_from_an_archive(request_folder, testbed):
    """On a node, by a shell alone: the testbed has no compiler outside of its images."""
    where = testbed.ssh("d=$(mktemp -d) && cd $d && mkdir solver-1 && pwd")
    testbed.ssh(
        f"cd {where} && printf 'echo built with $1 by $(basename $0)\\n' > solver-1/source.sh"
        " && tar czf solver.tar.gz solver-1"
    )
    request_folder.application = {
        "app_tag": request_folder.name, "app_type": "hpc", "executable": "./solver", "arguments": "'two words'",
        "container_runtime": "none",
        "build": {
            "src": f"file://{where}/solver.tar.gz",
            "build_command": "echo '#!/bin/sh' > solver; cat source.sh >> solver; chmod +x solver; echo {{BUILD_PARALLELISM}}",
            "build_parallelism": 2,
        },
    }  # fmt: skip
    request_folder.optimisation = {"app_type": "hpc", "app_type-hpc": {"config": {"parallelisation": "openmp"}}}
    done = request_folder.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    assert request_folder.output() == "2\nbuilt with two words by solver\n"


def test_the_types_are_those_of_this_checkout():
    import modak_ansible

    assert Path(modak_ansible.__file__).is_relative_to(ROOT)
