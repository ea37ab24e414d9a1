"""How parallel programs are started: golden scripts, and what each launcher is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from golden import assert_golden

from modak_ansible.allocation.allocate import allocate
from modak_ansible.allocation.limits import resource_problems
from modak_ansible.allocation.options import settled
from modak_ansible.catalogue import load_catalogue
from modak_ansible.errors import CannotPlan
from modak_ansible.model.application import Application, Build, HpcApplication, Optimisation, Resources
from modak_ansible.model.job_options import JobComponent, JobOptions
from modak_ansible.model.plan import PlannedImage
from modak_ansible.model.request import Request
from modak_ansible.model.target import Partition, Processor, Scheduler, Site, Target
from modak_ansible.optimisations.base import Draft
from modak_ansible.optimisations.distributed.launcher import Launcher, launching_of
from modak_ansible.planning.job import planned_job
from modak_ansible.planning.plan import make_plan

SHELLCHECK = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or "shellcheck"
MPI = {"parallelisation": "mpi"}


def request(
    scheduler="slurm",
    *,
    hpc=None,
    container=True,
    site=None,
    cores=8,
    most=4,
    application=None,
    options=None,
    **resources,
):
    partitions = (Partition(name="batch", nodes=most, cores=cores),) if scheduler != "none" else ()
    target = Target(
        name="cluster", scheduler=Scheduler(scheduler), partitions=partitions, processor=Processor(cores=cores),
        container_runtime="any" if container else "none", site=Site(**(site or {})),
    )  # fmt: skip
    values = {"name": "solver", "framework": "", "script": "", "command": ("./solve", "input file.dat")}
    return Request(
        blueprint="solver", training="program",
        application=Application(**{**values, **(application or {})}, hpc=HpcApplication(**(hpc or MPI))),
        resources=Resources(**resources), optimisation=Optimisation(), target=target,
        job_options=JobOptions(**(options or {})),
    )  # fmt: skip


def draft_of(asked, entry=""):
    catalogue, job = load_catalogue(), allocate(asked)
    draft = Draft(job.request, catalogue, (), job.partition, job.layout)
    draft.entry = next((each for each in catalogue.entries if each.name == entry), None)
    Launcher().apply(draft, "")
    return draft


def script(asked, entry=""):
    draft = draft_of(asked, entry)
    image = PlannedImage(
        entry=entry or "mine", container_runtime=asked.target.container_runtime, digest="d", definition="", layers=(),
        path="images/d.sif" if draft.in_container else "", python="python3",
    )  # fmt: skip
    return planned_job(draft, image, ()).script


def words(asked, entry=""):
    launch = launching_of(draft_of(asked, entry)).launch
    return " ".join((*launch.outside, *launch.inside))


def problems(asked):
    return [(problem.about, problem.message) for problem in resource_problems(asked)]


HYBRID = {**MPI, "ranks": 8, "threads": 2}
CASES = {
    "slurm-openmpi-container": (request(hpc={**HYBRID, "affinity": "close"}, nodes=2), "openmpi-mpi4py"),
    "slurm-mpich-native": (
        request(hpc={**HYBRID, "library": "mpich"}, nodes=2, container=False, site={"modules": ("mpich/4.1",)}), "",
    ),
    "torque-openmpi": (request("torque", hpc={**HYBRID, "library": "openmpi"}, nodes=2, exclusive=True), ""),
    "pbspro-openmpi": (request("pbspro", hpc={**HYBRID, "library": "openmpi"}, nodes=2, exclusive=True), ""),
    "lsf-openmpi": (request("lsf", hpc={**HYBRID, "library": "openmpi"}, nodes=2, exclusive=True), ""),
    "openmp": (
        request(
            hpc={"parallelisation": "openmp", "threads": 8, "affinity": "spread"},
            application={
                "words": ("-v",), "pre_execution": ("for f in *.in; do", "  cp $f $f.bak", "done"),
                "post_execution": ("tar czf all.tgz *.out",),
                "build": Build(
                    source="https://example.org/solver-1.2.tar.gz", kind="archive", command="make -j4 'CC=gcc -O3'",
                    parallelism=4,
                ),
            },
        ),
        "",
    ),
    "none-openmpi": (request("none", hpc={**MPI, "ranks": 4}), "openmpi-mpi4py"),
}  # fmt: skip


@pytest.mark.component
@pytest.mark.parametrize("name", CASES)
def test_script(name, tmp_path):
    text = script(*CASES[name])
    assert_golden(f"scripts/hpc-{name}.sh", text)
    path = tmp_path / "job.sh"
    path.write_text(text)
    found = subprocess.run([SHELLCHECK, str(path)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (request(hpc={**MPI, "ranks": 4}), "srun --mpi=pmix --ntasks=4 --ntasks-per-node=4 --cpus-per-task=2 --cpu-bind=cores"),
        (request(hpc={**MPI, "ranks": 4, "library": "mvapich"}, nodes=4, processes_per_node=1),
         "srun --mpi=pmi2 --ntasks=4 --ntasks-per-node=1 --cpus-per-task=8 --cpu-bind=cores"),
        (request(hpc={**MPI, "ranks": 16, "core_subscription": 2}),
         "srun --mpi=pmix --ntasks=16 --ntasks-per-node=16 --cpus-per-task=1 --overcommit --cpu-bind=none"),
        (request(hpc={**MPI, "ranks": 8, "affinity": "spread"}),
         "srun --mpi=pmix --ntasks=8 --ntasks-per-node=8 --cpus-per-task=1 --cpu-bind=cores --distribution=block:cyclic"),
        (request(hpc={**MPI, "ranks": 8, "affinity": "none"}),
         "srun --mpi=pmix --ntasks=8 --ntasks-per-node=8 --cpus-per-task=1 --cpu-bind=none"),
        (request("torque", hpc={**MPI, "ranks": 8}), "mpirun -np 8 --map-by ppr:8:node --bind-to core"),
        (request("torque", hpc={**MPI, "ranks": 4, "threads": 1}), "mpirun -np 4 --map-by ppr:4:node --bind-to none"),
        (request("torque", hpc={**MPI, "ranks": 4, "threads": 1, "affinity": "close"}),
         "mpirun -np 4 --map-by ppr:4:node --bind-to core"),
        (request("torque", hpc={**MPI, "ranks": 16}),
         'mpirun -np 16 --hostfile "$hosts" --map-by ppr:8:node --bind-to core'),
        (request("torque", hpc={**MPI, "ranks": 16, "library": "mpich"}),
         'mpiexec -n 16 -ppn 8 -f "$hosts" -bind-to core'),
        (request("lsf", hpc={**MPI, "ranks": 16, "library": "mpich"}),
         'mpiexec -n 16 -ppn 8 -f "$hosts" -bind-to core'),
        (request("none", hpc={**MPI, "ranks": 8, "library": "mvapich"}), "mpiexec -n 8 -ppn 8 -bind-to core"),
        (request("none", hpc={**MPI, "ranks": 16, "core_subscription": 2}),
         "mpirun -np 16 --map-by ppr:16:node:OVERSUBSCRIBE --bind-to none"),
        (request("torque", hpc={**MPI, "ranks": 2, "launcher": "mpirun -np 2 --mca btl tcp,self"}),
         "mpirun -np 2 --mca btl tcp,self"),
        (request("torque", hpc={**MPI, "ranks": 2}, site={"launcher": "/opt/launch"}), "/opt/launch"),
        (request("torque", hpc={**MPI, "ranks": 16, "threads": 1},
                 site={"launcher": "run -n {ranks} -N {ranks_per_node} -t {threads} -m {nodes} -f={hosts}"}),
         'run -n 16 -N 8 -t 1 -m 2 -f="$hosts"'),
        (request("torque", hpc=MPI, options={"core_count": 4}),
         'mpirun -np 4 --hostfile "$hosts" --map-by slot --bind-to none'),
        (request("torque", hpc={**MPI, "library": "mpich"}, options={"core_count": 4}),
         'mpiexec -n 4 -f "$hosts" -bind-to none'),
        (request(hpc={"parallelisation": "openmp", "threads": 4}), ""),
    ],
)  # fmt: skip
def test_what_launchers_are_told(asked, expected):
    assert words(asked) == expected


def test_cores_wherever_they_are_have_the_schedulers_own_list():
    text = script(request("torque", hpc=MPI, options={"core_count": 4}))
    assert "#PBS -l procs=4\n" in text
    assert 'then cat "$PBS_NODEFILE"; else' in text


def test_the_images_own_launcher_starts_python_scripts_too():
    application = {"command": (), "script": "hello.py", "framework": "mpi"}
    text = script(request("none", hpc={**MPI, "ranks": 8}, application=application), "openmpi-mpi4py")
    assert (
        "    mpirun\n    -np\n    8\n    --map-by\n    ppr:8:node\n    --bind-to\n    core\n    python3\n    hello.py\n"
        in text
    )


def test_the_image_says_which_mpi_it_has():
    assert words(request(hpc={**MPI, "ranks": 2}), "openmpi-mpi4py").startswith("srun --mpi=pmix ")
    with pytest.raises(CannotPlan, match="mpich is asked for, and openmpi-mpi4py has another MPI"):
        words(request(hpc={**MPI, "ranks": 2, "library": "mpich"}), "openmpi-mpi4py")


@pytest.mark.parametrize(
    ("asked", "nodes", "each"),
    [
        (request(hpc={**MPI, "ranks": 8}), 1, 8),
        (request(hpc={**MPI, "ranks": 9}), 3, 3),
        (request(hpc={**MPI, "ranks": 8, "threads": 4}), 4, 2),
        (request(hpc={**MPI, "ranks": 12}, processes_per_node=4), 3, 4),
        (request(hpc={**MPI, "ranks": 12}, nodes=2), 2, 6),
        (request(hpc={**MPI, "ranks": 16, "core_subscription": 2}), 1, 16),
    ],
)  # fmt: skip
def test_ranks_are_shared_out_evenly(asked, nodes, each):
    resources = settled(asked).resources
    assert (resources.nodes, resources.processes_per_node) == (nodes, each)
    assert problems(asked) == []


def test_ranks_do_not_take_many_times_the_nodes_that_hold_them():
    cluster = Partition(name="large", nodes=2000, cores=64)
    for ranks, needed, cure in ((127, 2, "64 or 128"), (10278, 161, "10240 or 10304")):
        asked = request(hpc={**MPI, "ranks": ranks})
        asked = asked.model_copy(update={"target": asked.target.model_copy(update={"partitions": (cluster,)})})
        with pytest.raises(CannotPlan, match=f"{needed} would hold them") as caught:
            settled(asked)
        assert cure in caught.value.hint


@pytest.mark.parametrize(
    ("asked", "about", "said"),
    [
        (request(hpc={**MPI, "ranks": 64}), "application.mpi_ranks", "has 4 nodes of 8 cores"),
        (request(hpc={**MPI, "ranks": 11}), "application.mpi_ranks", "do not fit evenly"),
        (request(hpc={**MPI, "ranks": 8, "threads": 8}), "application.mpi_ranks", "8 processes of 8 threads do not fit"),
        (request("none", hpc={**MPI, "ranks": 9}), "application.mpi_ranks", "has 8 cores on a node"),
        (request(hpc={**MPI, "ranks": 9}, nodes=2), "application.mpi_ranks", "shared out evenly over 2 nodes"),
        (request(hpc={**MPI, "ranks": 9}, nodes=2, processes_per_node=4), "application.mpi_ranks", "2 nodes with 4"),
        (request(hpc={**MPI, "ranks": 4, "threads": 4}, cores_per_process=2), "application.threads", "more than the 2"),
        (request(hpc={**MPI, "ranks": 4, "threads": 2, "core_subscription": 2}), "application.core_subscription", "share"),
        (request(hpc={"parallelisation": "openmp", "ranks": 2}), "application.mpi_ranks", "openmp is one"),
        (request(hpc={"parallelisation": "openmp", "threads": 16}), "resources.cores_per_process", "has 8"),
        (request(hpc={"parallelisation": "openacc", "accelerators": 2}), "resources.accelerators", "describes none"),
        (request(hpc=MPI, nodes=5, processes_per_node=1), "resources.nodes", "has 4"),
    ],
)  # fmt: skip
def test_contradictions_are_refused(asked, about, said):
    found = problems(asked)
    assert found, "it was accepted"
    assert found[0][0] == about
    assert said in found[0][1]


@pytest.mark.component
def test_a_program_is_built_and_run_in_its_folder(tmp_path):
    """The whole script, without a scheduler and without a container."""
    build = Build(command="printf '#!/bin/sh\\necho built with \"$1\"\\n' > solver; chmod +x solver")
    asked = request(
        "none", container=False, hpc={"parallelisation": "openmp", "threads": 2},
        application={"command": ("solver", "a $HOME 'b'"), "build": build, "pre_execution": ("echo before",),
                     "post_execution": ("echo after $MODAK_EXIT_CODE",)},
    )  # fmt: skip
    assert run(script(asked), tmp_path) == (0, "before\nbuilt with a $HOME 'b'\nafter 0\n")


@pytest.mark.component
def test_a_build_that_fails_ends_the_job(tmp_path):
    build = Build(command="echo building\nfalse\necho never")
    asked = request("none", container=False, hpc={"parallelisation": "openmp"}, application={"build": build})
    assert run(script(asked), tmp_path) == (1, "building\n")


@pytest.mark.component
def test_what_runs_after_cannot_turn_failure_into_success(tmp_path):
    application = {"command": ("sh", "-c", "exit 4"), "post_execution": ("true",)}
    asked = request("none", container=False, hpc={"parallelisation": "openmp"}, application=application)
    assert run(script(asked), tmp_path)[0] == 4
    application = {"command": ("true",), "post_execution": ("(exit 9)", "echo never")}
    asked = request("none", container=False, hpc={"parallelisation": "openmp"}, application=application)
    assert run(script(asked), tmp_path / "other") == (9, "")


@pytest.mark.component
def test_an_archive_is_fetched_unpacked_and_built(tmp_path):
    source = tmp_path / "solver-1.0"
    source.mkdir()
    (source / "Makefile").write_text(
        "solver:\n\tprintf '#!/bin/sh\\necho from the archive\\n' > solver; chmod +x solver\n"
    )
    subprocess.run(["tar", "czf", "solver.tar.gz", "solver-1.0"], cwd=tmp_path, check=True)
    build = Build(source=f"file://{tmp_path}/solver.tar.gz", kind="archive", command="make -j1 solver")
    application = {"command": ("./solver",), "build": build}
    asked = request("none", container=False, hpc={"parallelisation": "openmp"}, application=application)
    code, output = run(script(asked), tmp_path / "job")
    assert code == 0
    assert output.endswith("from the archive\n")


@pytest.mark.component
def test_a_repository_is_cloned_and_built(tmp_path):
    source = tmp_path / "solver"
    source.mkdir()
    (source / "solver").write_text("#!/bin/sh\necho from the repository\n")
    (source / "solver").chmod(0o755)
    quietly = {"cwd": source, "capture_output": True}
    subprocess.run(["git", "init"], check=True, **quietly)
    subprocess.run(["git", "add", "."], check=True, **quietly)
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "first"], check=True, **quietly)
    build = Build(source=f"file://{source}", kind="git", command="ls")
    application = {"command": ("solver",), "build": build}
    asked = request("none", container=False, hpc={"parallelisation": "openmp"}, application=application)
    assert run(script(asked), tmp_path / "job") == (0, "solver\nfrom the repository\n")


def run(text, workspace):
    deployment = workspace / "deployments" / "one"
    (deployment / "code").mkdir(parents=True)
    (deployment / "job.sh").write_text(text)
    environment = {"PATH": os.environ["PATH"], "HOME": str(workspace)}
    done = subprocess.run(["bash", "job.sh"], cwd=deployment, env=environment, check=False)
    assert (deployment / "state" / "finished").read_text() == f"{done.returncode}\n"
    return done.returncode, (deployment / "output.log").read_text()


def test_a_plan_of_a_program_says_nothing_of_code_that_nobody_trains():
    application = {"framework": "mpi", "command": ("./solve",)}
    made = make_plan(request(hpc={**MPI, "ranks": 2}, application=application))
    told = {choice.name: choice for choice in made.choices}
    assert told["launcher"].value.startswith("srun --mpi=pmix --ntasks=2")
    assert "code" not in {choice.reaches for choice in made.choices}
    assert {"image", "threads", "container"} <= set(told)


def test_a_program_without_a_container_needs_no_image():
    made = make_plan(request(container=False, hpc={**MPI, "ranks": 2}, application={"framework": "native"}))
    assert made.image.layers == ()
    assert made.choices[0].value == "none"
    assert "image=" not in made.job.script
    assert [each.what for each in made.staging] == []
    with pytest.raises(CannotPlan, match="openmpi-mpi4py is not available"):
        asked = request(container=False, hpc={**MPI, "ranks": 2}, application={"framework": "mpi"})
        make_plan(asked.model_copy(update={"optimisation": Optimisation(entry="openmpi-mpi4py")}))


@pytest.mark.component
@pytest.mark.parametrize("broken", ["if then", "echo 'open", "(", "}", "echo $(", "<<END\nnever ends", "exit 3", "\\"])
def test_broken_lines_stay_in_their_own_place(broken, tmp_path):
    """What a user writes before and after the program cannot break the script around it."""
    application = {"command": ("echo", "ran"), "pre_execution": ("true",), "post_execution": (broken,)}
    asked = request("none", container=False, hpc={"parallelisation": "openmp"}, application=application)
    code, output = run(script(asked), tmp_path / "after")
    assert output == "ran\n"
    assert (code != 0) is (broken != "<<END\nnever ends")
    application = {"command": ("echo", "ran"), "pre_execution": (broken,)}
    asked = request("none", container=False, hpc={"parallelisation": "openmp"}, application=application)
    code, output = run(script(asked), tmp_path / "before")
    assert (output == "ran\n") is (code == 0)


def test_a_site_may_ask_for_accelerators_by_the_process():
    site = {"gpu_request": "--gpus-per-task={per_process}"}
    asked = request(hpc={**MPI, "ranks": 2}, site=site, nodes=1, accelerators=4)
    assert "\n#SBATCH --gpus-per-task=2\n" in script(asked, "openmpi-mpi4py")
    with pytest.raises(CannotPlan, match="3 accelerators of a node cannot be shared evenly among 2 processes"):
        script(request(hpc={**MPI, "ranks": 2}, site=site, nodes=1, accelerators=3), "openmpi-mpi4py")


COMPONENTS = {"node_count": 3, "components": (JobComponent(name="a"), JobComponent(name="b", node_count=2))}


def test_all_components_are_started_by_one_srun_that_is_told_no_number_of_the_first():
    words = launching_of(draft_of(request(options=COMPONENTS, processes_per_node=2, container=False))).words
    assert words[:6] == ("env", "-u", "SLURM_NTASKS", "-u", "SLURM_NPROCS", "srun")
    assert {"--het-group=0-1", "--ntasks-per-node=2"} <= set(words)
    assert not [word for word in words if word.startswith("--ntasks=")]


@pytest.mark.parametrize("more", [{"hpc": {**MPI, "launcher": "mpirun"}}, {"site": {"launcher": "mpirun -np {ranks}"}}])
def test_components_want_srun(more):
    with pytest.raises(CannotPlan, match=r"only Slurm's srun starts the processes of all components") as caught:
        draft_of(request(options=COMPONENTS, container=False, **more))
    assert caught.value.about == "job_options.components"
