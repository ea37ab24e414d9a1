"""Job scripts: golden files, clean in shellcheck, and deaf to whatever a blueprint says."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from golden import assert_golden
from hypothesis import example, given, settings
from hypothesis import strategies as st

from generate.job_scripts import environment
from modak_ansible.model.application import Build, Checkpoint
from modak_ansible.model.job_options import JobComponent, JobOptions
from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Pods, Scheduler
from modak_ansible.model.tuning import PlannedTuning, TuningCandidate
from modak_ansible.schedulers import script
from modak_ansible.schedulers.script import DataPlace, Launch, Ranks, ScriptParts, render_script

SHELLCHECK = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or "shellcheck"


def job(scheduler, **changes):
    values = {
        "scheduler": Scheduler(scheduler), "name": "example", "nodes": 1, "processes_per_node": 1,
        "cores_per_process": 4, "threads": 4, "walltime": 5400, "environment": {}, "script": "",
    }  # fmt: skip
    return PlannedJob(**{**values, **changes})


PLAIN = ScriptParts(
    image="images/abc.sif", python="/opt/venv/bin/python", script="train.py", container_runtime="any", runtime=True
)
IN_PODS = PLAIN._replace(
    image="registry.example/team/images:abc", container_runtime="kubernetes",
    pods=Pods(namespace="team-a", mount_path="/shared", persistent_volume_claim="shared"),
)  # fmt: skip
FULL = ScriptParts(
    image="images/abc.sif", python="/opt/venv/bin/python", script="it's a script.py", container_runtime="singularity",
    container_flags=("--nv",), binds=("/lustre/data:/data:ro",), modules=("singularity/4.1",), data=(DataPlace("mnist", "datasets/mnist-1"),),
    staging_path="$TMPDIR/modak", environment=(("OMP_NUM_THREADS", "4"), ("NOTE", "a b; $(reboot) `id` \"'")),
    arguments=(("epochs", "12"), ("n", "1"), ("data", "{dataset}/idx"), ("verbose", True), ("name", "a 'b' $HOME")),
)  # fmt: skip
DATA = (
    DataPlace("corpus", "datasets/corpus-1", "MODAK_DATASET_CORPUS", "data/it's $x.txt", "it's $x.txt"),
    DataPlace("valid", "datasets/valid-1", "MODAK_DATASET_VALID", "../valid"),
    DataPlace("there", "datasets/there-1", "MODAK_DATASET_THERE", is_present=True),
)
PHOTOS = DataPlace("photos", "datasets/photos-1", packed=True)
CASES = {
    "slurm-plain": (job("slurm"), PLAIN),
    "slurm-full": (
        job("slurm", nodes=2, processes_per_node=2, memory=8 * 10**9, accelerators=1, partition="gpu", account="p-1",
            exclusive=True, walltime=129600),
        ScriptParts(**{**FULL._asdict(), "gpu_request": "--gres=gpu:a100:1", "launch": Launch(("srun", "--cpus-per-task=4"))}),
    ),
    "torque-plain": (job("torque"), PLAIN),
    "pbspro-full": (
        job("pbspro", nodes=2, memory=8 * 10**9, accelerators=2, partition="batch", account="p-1", exclusive=True,
            walltime=129600, checkpoint=Checkpoint(every=60, signal_before_wall=40, requeue=1)),
        ScriptParts(**{**FULL._asdict(), "gpu_request": ":ngpus=2", "launch": Launch(("mpirun", "-np", "2"))}),
    ),
    "lsf-full": (
        job("lsf", nodes=2, memory=8 * 10**9, accelerators=2, partition="batch", account="p-1", exclusive=True,
            walltime=129600, checkpoint=Checkpoint(every=60, signal_before_wall=40, requeue=1)),
        ScriptParts(**{**FULL._asdict(), "gpu_request": "num=2:j_exclusive=yes", "launch": Launch(("mpirun", "-np", "2"))}),
    ),
    "lsf-ranks": (
        job("lsf", nodes=2, processes_per_node=2),
        PLAIN._replace(launch=Launch(("blaunch", "-u", '"$hosts"'), lines=2, ranks=Ranks(4, 2, "ddp"))),
    ),
    "slurm-ranks": (
        job("slurm", nodes=2, checkpoint=Checkpoint()),
        PLAIN._replace(launch=Launch(("srun", "--kill-on-bad-exit=1"), ranks=Ranks(2, 1, "ddp"))),
    ),
    "slurm-components": (
        job("slurm", nodes=4, processes_per_node=2, partition="cpu", account="p-1", checkpoint=Checkpoint(),
            options=JobOptions(node_count=4, components=(
                JobComponent(name="head", partition="big", memory_limit=2**36, architecture_constraint="ib"),
                JobComponent(name="rest", node_count=3, partition="cpu"),
            ))),
        PLAIN._replace(launch=Launch(("env", "-u", "SLURM_NTASKS", "srun", "--het-group=0-1"), ranks=Ranks(8, 2, "ddp"))),
    ),
    "torque-ranks": (
        job("torque", nodes=2, processes_per_node=2),
        PLAIN._replace(container_flags=("--cleanenv",),
            launch=Launch(("mpirun", "--hostfile", '"$hosts"'), hosts=" slots=2", ranks=Ranks(4, 2, interface="ib0")),
        ),
    ),
    "none-ranks": (
        job("none", processes_per_node=2, accelerators=2),
        PLAIN._replace(launch=Launch(ranks=Ranks(2, 2, "ddp", devices="CUDA_VISIBLE_DEVICES", accelerators=2, is_local=True))
        ),
    ),
    "none-hosts": (
        job("none", nodes=3, processes_per_node=2),
        ScriptParts(
            image="images/abc.sif", python="python3", script="train.py", container_runtime="apptainer",
            data=(DataPlace("mnist", "datasets/mnist"),),
            launch=Launch(ranks=Ranks(6, 2, "ddp", is_local=True, hosts=("box2", "it's.example")))),
    ),
    "torque-full": (
        job("torque", nodes=2, memory=8 * 10**9, accelerators=2, partition="batch", account="p-1", exclusive=True,
            walltime=129600),
        ScriptParts(**{**FULL._asdict(), "gpu_request": ":gpus=2", "launch": Launch(("mpirun", "-np", "2"))}),
    ),
    "slurm-after": (
        job("slurm"),
        ScriptParts(
            **{
                **PLAIN._asdict(),
                "after": (("pre-process", ("example-1",)), ("train", ("example-2", "example-3"))),
                "arguments": (("data", "{after:pre-process}/it's"), ("weights", "{after:train}")),
                "pre": ("ls $MODAK_AFTER_TRAIN",),
            }
        ),
    ),
    "slurm-data": (
        job("slurm"),
        ScriptParts(
            **{
                **PLAIN._asdict(),
                "data": DATA,
                "staging_path": "/scratch",
                "arguments": (("data", "{dataset}"), ("valid", "{dataset.valid}/x"), ("there", "{dataset.there}")),
                "environment": (("VALID", "{dataset.valid}"),),
                "pre": ("ls {dataset.there} $MODAK_DATASET_VALID",),
            }
        ),
    ),
    "none-data": (
        job("none"),
        ScriptParts(image="images/abc.venv", python="bin/python", script="train.py", runtime=True, data=DATA[:1]),
    ),
    "slurm-checkpoint": (
        job("slurm", checkpoint=Checkpoint()),
        ScriptParts(**{**PLAIN._asdict(), "post": ("echo $MODAK_EXIT_CODE",)}),
    ),
    "torque-checkpoint": (job("torque", checkpoint=Checkpoint(every=60, signal_before_wall=40, requeue=1)), PLAIN),
    "slurm-scratch": (job("slurm"), ScriptParts(**{**PLAIN._asdict(), "scratch": "$SCRATCH/own disk"})),
    "slurm-packed": (
        job("slurm", nodes=2), ScriptParts(**{**PLAIN._asdict(), "data": (PHOTOS,)}),
    ),
    "slurm-packed-copied": (
        job("slurm", nodes=2),
        ScriptParts(**{**PLAIN._asdict(), "data": (PHOTOS,), "staging_path": "/scratch"}),
    ),
    "slurm-by-node": (
        job("slurm", nodes=2, processes_per_node=2),
        PLAIN._replace(staging_path="/scratch",
            data=(DataPlace("s", "datasets/s-1", staging="by-node"), DataPlace("t", "datasets/t-1", staging="shared")),
        ),
    ),
    "none-packed-copied": (
        job("none"),
        ScriptParts(**{**PLAIN._asdict(), "data": (PHOTOS,), "staging_path": "/scratch"}),
    ),
    "none-checkpoint": (job("none", checkpoint=Checkpoint(requeue=0)), PLAIN),
    "none-environment": (
        job("none"),
        ScriptParts(image="images/abc.venv", python="bin/python", script="train.py", data=(DataPlace("mnist", "datasets/mnist-1"),), runtime=True),
    ),
    "none-podman": (
        job("none", checkpoint=Checkpoint()),
        FULL._replace(script="train.py", container_runtime="podman", container_flags=("--device=nvidia.com/gpu=all",),
            binds=("/lustre/data:/data:ro", "/opt/licences"), modules=(), image="images/abc.tar", seal="images/abc.seal"),
    ),
    "none-docker": (
        job("none", accelerators=1),
        PLAIN._replace(container_runtime="docker", container_flags=("--gpus=all",), image="images/abc.tar", data=(DataPlace("mnist", "datasets/mnist"),)),
    ),
    "slurm-enroot": (
        job("slurm", accelerators=1, memory=8 * 10**9),
        FULL._replace(script="train.py", container_runtime="enroot", container_flags=("--env=NVIDIA_VISIBLE_DEVICES=all",),
            binds=("/lustre/it's data:/data:ro", "/opt/licences"), modules=(), image="images/abc.sqsh", seal="images/abc.seal"),
    ),
    "slurm-pyxis": (
        job("slurm", accelerators=1, memory=8 * 10**9),
        FULL._replace(script="train.py", container_runtime="pyxis", container_flags=("--container-env=NVIDIA_VISIBLE_DEVICES",),
            binds=("/lustre/it's data:/data:ro", "/opt/licences"), modules=(), image="images/abc.sqsh", seal="images/abc.seal"),
    ),
    "slurm-pyxis-ranks": (
        job("slurm", nodes=2, checkpoint=Checkpoint()),
        PLAIN._replace(container_runtime="pyxis", image="images/abc.sqsh",
            launch=Launch(("srun", "--kill-on-bad-exit=1"), ranks=Ranks(2, 1, "ddp"))),
    ),
    "slurm-podman-hpc": (
        job("slurm", nodes=2, accelerators=2),
        PLAIN._replace(container_runtime="podman-hpc", container_flags=("--gpu",), image="images/abc.tar",
            launch=Launch(("srun",), ranks=Ranks(2, 1))),
    ),
    "slurm-charliecloud": (
        job("slurm"),
        FULL._replace(script="train.py", container_runtime="charliecloud", container_flags=(),
            binds=("/lustre/data:/data:ro", "/opt/licences"), modules=(), image="images/abc.sqfs", seal="images/abc.seal"),
    ),
    "kubernetes-plain": (job("kubernetes"), IN_PODS),
    "kubernetes-full": (
        job("kubernetes", processes_per_node=2, memory=8 * 10**9, accelerators=2, partition="batch",
            checkpoint=Checkpoint(every=60, signal_before_wall=40, requeue=1), options=JobOptions(request_specific_nodes=("worker-3",))),
        FULL._replace(script="train.py", container_runtime="kubernetes", container_flags=(), binds=(), modules=(), gpu_request="nvidia.com/gpu=2",
            image="registry.example/team/torch@sha256:" + "0" * 64, staging_path="/scratch", pods=Pods(mount_path="/shared", host_path="/lustre/team", image_pull_secrets=("registry", "other")),
            launch=Launch(ranks=Ranks(2, 2, "ddp", devices="CUDA_VISIBLE_DEVICES", accelerators=2, is_local=True))),
    ),
    "kubernetes-pods": (
        job("kubernetes", nodes=3, processes_per_node=2, accelerators=2, checkpoint=Checkpoint(every=60, signal_before_wall=40, requeue=1)),
        IN_PODS._replace(gpu_request="nvidia.com/gpu=2", pre=("export TOKEN=x",),
            launch=Launch(ranks=Ranks(6, 2, "ddp", devices="CUDA_VISIBLE_DEVICES", accelerators=2, is_local=True))),
    ),
    "none-given-image": (
        job("none"),
        ScriptParts(image="~/images/my.sif", python="python3", script="train.py", container_runtime="apptainer"),
    ),
}  # fmt: skip

JINJA = environment()
EVERYTHING = ScriptParts(
    **{
        **FULL._asdict(),
        "gpu_request": ":gpus=2", "launch": Launch(("mpirun",), ("env", "X=1"), " slots=2", True), "words": ("a b", "$c"),
        "command": ("./solver", "in put"), "site_pre": ("export A=1",), "pre": ("ls ${dataset} {dataset}",),
        "post": ("echo 'x'",), "seal": "images/abc.sha256", "signing_key": "~/key", "script": "train.py",
        "build": Build(source="https://example.org/x.zip", kind="archive", command="make -j 4"), "runtime": True,
        "after": (("pre-process", ("example-1",)), ("train", ("example-2", "example-3"))),
        "tuning": PlannedTuning(candidates=tuple(TuningCandidate(name=f"c{number}", title=f"try {number}",
            environment=(("A", "b c"),), arguments=(("n", "1"), ("off", False))) for number in range(3)),
            budget=60, steps=2, reduction=2, rungs=1),
    }
)  # fmt: skip


@pytest.mark.component
@pytest.mark.parametrize("name", CASES)
def test_script(name, tmp_path):
    text = render_script(*CASES[name])
    assert_golden(f"scripts/{name}.sh", text)
    path = tmp_path / "job.sh"
    path.write_text(text)
    subprocess.run(["bash", "-n", str(path)], check=True)
    found = subprocess.run([SHELLCHECK, str(path)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@given(st.data())
def test_the_generated_python_writes_what_jinja2_makes_of_the_templates(data):
    """With and without each part of a script, whatever the others are."""
    stock = ScriptParts._field_defaults
    fields = [name for name in ScriptParts._fields if name not in stock or getattr(EVERYTHING, name) != stock[name]]
    chosen = data.draw(st.sets(st.sampled_from(fields)))
    parts = PLAIN._replace(**{name: getattr(EVERYTHING, name) for name in chosen})
    options = data.draw(st.sampled_from([JobOptions(), JobOptions(standard_output_file="o", standard_error_file="e")]))
    checkpoint = data.draw(st.sampled_from([None, Checkpoint(), Checkpoint(requeue=0)]))
    if parts.container_runtime:
        runtimes = sorted({*script.CONTAINER_RUNTIMES} - {"kubernetes"})
        parts = parts._replace(container_runtime=data.draw(st.sampled_from(runtimes)))
    example = job(data.draw(st.sampled_from([*Scheduler])), options=options, checkpoint=checkpoint)
    if example.scheduler is Scheduler.KUBERNETES:
        several = data.draw(st.sampled_from([None, Ranks(4, 2, is_local=True)]))
        example = example.model_copy(update={"nodes": 2 if several else 1})
        parts = parts._replace(pods=IN_PODS.pods, container_runtime="kubernetes", gpu_request="")
        parts = parts._replace(launch=parts.launch._replace(ranks=several)) if several else parts
        example = example.model_copy(update={"options": JobOptions()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script, "render", lambda name, values: JINJA.get_template(f"{name}.sh.j2").render(values))
        expected = render_script(example, parts)
    assert render_script(example, parts) == expected


def test_walltimes_beyond_a_day():
    assert "#SBATCH --time=1-12:00:00\n" in render_script(job("slurm", walltime=129600), PLAIN)
    assert "#PBS -l walltime=36:00:00\n" in render_script(job("torque", walltime=129600), PLAIN)


@pytest.mark.parametrize("field", ["name", "partition", "account"])
@pytest.mark.parametrize("value", ["a\n#SBATCH --uid=0", "a b", "a'b", 'a"b', "$(id)", "a;b", "a`b`", "a|b", "a>b"])
@pytest.mark.parametrize("scheduler", ["slurm", "torque", "pbspro", "lsf"])
def test_directives_take_plain_words_only(scheduler, field, value):
    with pytest.raises(ValueError, match="cannot be written in a directive"):
        render_script(job(scheduler, **{field: value}), PLAIN)


def test_a_name_stays_in_its_comment_without_a_scheduler():
    with pytest.raises(ValueError, match="cannot be written"):
        render_script(job("none", name="a\nreboot"), PLAIN)


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """A deployment whose 'image' is an environment that prints what the training would get."""
    workspace = tmp_path_factory.mktemp("workspace")
    (workspace / "images" / "abc.venv" / "bin").mkdir(parents=True)
    python = workspace / "images" / "abc.venv" / "bin" / "python"
    python.write_text('#!/bin/bash\nprintf "%s\\0" "$TEST_VALUE" "$@" > ../got\n')
    python.chmod(0o755)
    return workspace


@pytest.mark.component
@settings(max_examples=60)
@given(
    value=st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30),
    argument=st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30).filter(
        lambda text: "{dataset}" not in text and text != "--"  # which Python before 3.13 takes for the end of options
    ),
)
@example(value="", argument="-1e-5")
@example(value="", argument="--x y")
@example(value="{dataset.", argument="{after:")
@example(value="{dataset", argument="{dataset.x")
def test_every_text_reaches_the_training_as_it_is(stage, value, argument):
    deployment = stage / "deployments" / "one"
    shutil.rmtree(deployment, ignore_errors=True)
    (deployment / "code").mkdir(parents=True)
    parts = ScriptParts(
        image="images/abc.venv", python="bin/python", script="train.py", environment=(("TEST_VALUE", value),),
        arguments=(("x-y", argument),),
    )  # fmt: skip
    (deployment / "job.sh").write_text(render_script(job("none"), parts))
    done = subprocess.run(["bash", str(deployment / "job.sh")], cwd=deployment, check=False)
    got = (deployment / "got").read_bytes().decode().split("\0")[:-1]
    options = argparse.ArgumentParser()
    options.add_argument("--x-y")
    assert (got[:2], options.parse_args(got[2:]).x_y) == ([value, "train.py"], argument)
    assert done.returncode == 0
    assert (deployment / "state" / "finished").read_text() == "0\n"
    assert sorted(path.name for path in deployment.iterdir()) == [
        "code",
        "error.log",
        "got",
        "job.sh",
        "output.log",
        "state",
    ]


def test_a_program_gets_a_value_as_a_word_of_its_own():
    """Whatever it reads its words with: many read no --x=-y."""
    parts = PLAIN._replace(command=("solve",), arguments=(("x", "-1e-5"), ("tolerance", "-1e-5")))
    assert "    -x -1e-5\n    --tolerance -1e-5\n" in render_script(job("none"), parts)


def run_script(deployment, code):
    (deployment / "code").mkdir(parents=True, exist_ok=True)
    python = deployment.parent.parent / "images" / "abc.venv" / "bin" / "python"
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text(f"#!/bin/bash\n{code}\n")
    python.chmod(0o755)
    parts = ScriptParts(image="images/abc.venv", python="bin/python", script="train.py")
    (deployment / "job.sh").write_text(render_script(job("none", walltime=2), parts))
    return subprocess.run(["bash", "job.sh"], cwd=deployment, capture_output=True, text=True, check=False)


@pytest.mark.component
def test_the_end_is_marked_with_the_trainings_own_code(tmp_path):
    deployment = tmp_path / "deployments" / "one"
    done = run_script(deployment, "echo out; echo err >&2; exit 3")
    assert done.returncode == 3
    assert (deployment / "state" / "finished").read_text() == "3\n"
    assert (deployment / "output.log").read_text() == "out\n"
    assert (deployment / "error.log").read_text() == "err\n"


@pytest.mark.component
def test_without_a_scheduler_the_script_keeps_the_walltime(tmp_path):
    deployment = tmp_path / "deployments" / "one"
    assert run_script(deployment, "sleep 30").returncode == 124
    assert (deployment / "state" / "ended").read_text() == "timeout\n"


@pytest.mark.component
def test_a_second_job_leaves_the_deployment_alone(tmp_path):
    deployment = tmp_path / "deployments" / "one"
    (deployment / "state").mkdir(parents=True)
    (deployment / "state" / "claim").write_text("12345\n")
    done = run_script(deployment, "echo trained > ../trained")
    assert done.returncode == 75
    assert "job 12345 already runs this deployment" in done.stderr
    assert not (deployment / "trained").exists()


@pytest.mark.component
def test_a_term_reaches_the_training_and_is_marked(tmp_path):
    deployment = tmp_path / "deployments" / "one"
    run_script(deployment, "trap 'echo told; exit 9' TERM; touch ../ready; for i in {1..100}; do sleep 0.1; done")
    shutil.rmtree(deployment / "state")
    for name in ("ready", "output.log"):
        (deployment / name).unlink()
    process = subprocess.Popen(["bash", "job.sh"], cwd=deployment)
    for _ in range(100):
        if (deployment / "ready").exists():
            break
        subprocess.run(["sleep", "0.05"], check=True)
    process.terminate()
    assert process.wait(timeout=10) == 143
    assert (deployment / "output.log").read_text() == "told\n"
    assert (deployment / "state" / "finished").read_text() == "143\n"


def rerun_by_the_scheduler(deployment):
    """The same script in the same job once more, as Slurm runs it after its node failed."""
    text = (deployment / "job.sh").read_text()
    (deployment / "job.sh").write_text(re.sub(r'(?m)^job_id=".*"$', 'job_id="77"', text))
    return subprocess.run(["bash", "job.sh"], cwd=deployment, capture_output=True, text=True, check=False)


@pytest.mark.component
@pytest.mark.parametrize("life", ["killed without a word", "failed", "timed out"])
def test_the_same_job_runs_again(tmp_path, life):
    """What its earlier life noted does not count, and what it wrote stays."""
    deployment = tmp_path / "deployments" / "one"
    run_script(deployment, "echo once")
    state = deployment / "state"
    (state / "claim").write_text("77\n")
    (state / "finished").unlink()
    if life != "killed without a word":
        (state / "finished").write_text("143\n")
    if life == "timed out":
        (state / "ended").write_text("timeout\n")
    assert rerun_by_the_scheduler(deployment).returncode == 0
    assert (state / "finished").read_text() == "0\n"
    assert not (state / "ended").exists()
    assert (deployment / "output.log").read_text() == "once\nonce\n"


@pytest.mark.component
def test_a_job_that_had_completed_does_not_train_again(tmp_path):
    deployment = tmp_path / "deployments" / "one"
    run_script(deployment, "echo once")
    (deployment / "state" / "claim").write_text("77\n")
    assert rerun_by_the_scheduler(deployment).returncode == 0
    assert (deployment / "output.log").read_text() == "once\n"


@pytest.mark.component
@pytest.mark.parametrize("other", ["", "78\n"], ids=["set aside", "claimed by another"])
def test_a_job_that_comes_back_from_the_dead_does_not_mark_the_end_of_the_next_attempt(tmp_path, other):
    deployment = tmp_path / "deployments" / "one"
    aside = "mv ../state ../aside; mkdir ../state; " + (f"echo {other.strip()} > ../state/claim; " if other else "")
    run_script(deployment, f"{aside}exit 3")
    assert not (deployment / "state" / "finished").exists()
    assert (deployment / "aside" / "claim").exists()


PODMAN = """#!/bin/bash
# takes Podman's place: containers are processes in a session of their own, and have a file each
case "$1" in
    load) echo "Loaded image: localhost/modak:abc" ;;
    image) printf 'PATH=/opt/venv/bin\\nOF_THE_IMAGE=1\\n\\n' ;;
    ps) cat "$STORE/running" 2> /dev/null ;;
    rm) kill -KILL "-$3" 2> /dev/null; rm -f "$STORE/running" ;;
    run)
        echo "$*" >> "$STORE/asked"
        setsid bash -c 'echo "$$" > "$STORE/running"; exec sleep 60' &
        wait "$!" ;;
esac
"""


@pytest.mark.component
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_a_job_ends_its_container(tmp_path, monkeypatch, sent):
    deployment = tmp_path / "w" / "deployments" / "d"
    (deployment / "code").mkdir(parents=True)
    (tmp_path / "podman").write_text(PODMAN)
    (tmp_path / "podman").chmod(0o755)
    (tmp_path / "w" / "images").mkdir()
    (tmp_path / "w" / "images" / "abc.tar").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("STORE", str(tmp_path))
    for name in ("OF_THE_IMAGE", "OF_THE_JOB"):
        monkeypatch.setenv(name, "two\nlines")
    parts = PLAIN._replace(container_runtime="podman", image="images/abc.tar")
    (deployment / "job.sh").write_text(render_script(job("none"), parts))
    process = subprocess.Popen(["setsid", "bash", str(deployment / "job.sh")])
    wait_until((tmp_path / "running").exists)
    container = int((tmp_path / "running").read_text())
    os.killpg(process.pid, sent)
    process.wait(30)
    wait_until(lambda: not Path(f"/proc/{container}").exists())
    asked = (tmp_path / "asked").read_text()
    assert "--env=OF_THE_JOB" in asked, asked
    assert "--env=OF_THE_IMAGE" not in asked, "what the image says goes before"
    assert "--env=PATH" not in asked.split()
    assert f"--workdir {deployment}/code" in asked


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)


CH_RUN = """#!/usr/bin/env python3
# takes ch-run's place: it goes when it is asked to end, whatever its program does, and calls every signal 1
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
code = subprocess.call(sys.argv[sys.argv.index("--") + 1:], preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
sys.exit(1 if code < 0 else code)
"""


def run_by_charliecloud(tmp_path, monkeypatch, program):
    """A process of a job that runs a shell's program, and the job's folder."""
    deployment = tmp_path / "w" / "deployments" / "d"
    (deployment / "code").mkdir(parents=True)
    (tmp_path / "ch-run").write_text(CH_RUN)
    (tmp_path / "ch-run").chmod(0o755)
    (tmp_path / "w" / "images").mkdir()
    (tmp_path / "w" / "images" / "abc.sqfs").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_SUBMIT_DIR", str(deployment))
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    parts = PLAIN._replace(container_runtime="charliecloud", image="images/abc.sqfs", command=("bash", "-c", program))
    (deployment / "job.sh").write_text(render_script(job("slurm"), parts))
    return subprocess.Popen(["bash", str(deployment / "job.sh")]), deployment


@pytest.mark.component
def test_what_ends_in_charliecloud_by_a_signal_has_its_code(tmp_path, monkeypatch):
    process, deployment = run_by_charliecloud(tmp_path, monkeypatch, "kill -KILL $$")
    assert process.wait(30) == 137
    assert (deployment / "state" / "finished").read_text() == "137\n"


@pytest.mark.component
def test_a_job_in_charliecloud_ends_when_its_program_has(tmp_path, monkeypatch):
    """And not when ch-run goes, with the image."""
    program = "trap 'sleep 1; echo saved > ../saved; exit 0' TERM; touch ../began; while :; do sleep 0.1; done"
    process, deployment = run_by_charliecloud(tmp_path, monkeypatch, program)
    wait_until((deployment / "began").exists)
    process.terminate()
    assert process.wait(30) == 143
    assert (deployment / "saved").read_text() == "saved\n"
