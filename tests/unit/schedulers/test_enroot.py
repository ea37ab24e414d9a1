"""Jobs in containers of Enroot and Pyxis: the scripts run, with programs in their place that do what is documented of them."""

from __future__ import annotations

import os
import subprocess

import pytest

from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Scheduler
from modak_ansible.schedulers.script import DataPlace, Launch, Ranks, ScriptParts, render_script

# Of its sources (3.x): the configuration is read where the host's environment is; what environ prints comes behind the
# image's own words, and --env behind both; the body of rc is what /bin/sh starts in the container, from its root.
ENROOT = r"""#!/bin/bash
[ "$1" = start ] && shift || exit 2
more=()
while :; do
    case $1 in
        --conf) conf=$2; shift 2 ;;
        --env=*) more+=("${1#*=}"); shift ;;
        --) shift; break ;;
        *) echo "no option: $1" >&2; exit 2 ;;
    esac
done
image=$1; shift
export ENROOT_ROOTFS=$ROOTFS
echo "$image" > "$SEEN/image"
(. "$conf"; mounts > "$SEEN/mounts"; environ > "$SEEN/environ"; declare -f rc | sed '1,2d;$d' > "$SEEN/rc")
mapfile -t words < <(cat "$ROOTFS/etc/environment" "$SEEN/environ"; printf '%s\n' "${more[@]}")
cd /
exec env -i "${words[@]}" /bin/sh "$SEEN/rc" "$@"
"""
# Of its options (Pyxis' page "Usage"): the job's environment goes into the container, and the image's own words before it.
SRUN = r"""#!/bin/bash
printf '%s\n' "$@" > "$SEEN/srun"
folder=/
tasks=1
while :; do
    case $1 in
        --container-workdir=*) folder=${1#*=} ;;
        --ntasks=*) tasks=${1#*=} ;;
        --*) ;;
        *) break ;;
    esac
    shift
done
cd "$folder" && exec env SLURM_PROCID=0 "$@"
"""
TRAIN = 'echo "$PWD $OWN $GIVEN $NVIDIA_VISIBLE_DEVICES $1"; exit 3\n'


@pytest.fixture
def run(tmp_path, monkeypatch):
    programs, seen, rootfs = (tmp_path / name for name in ("bin", "seen", "rootfs"))
    deployment = tmp_path / "w s" / "deployments" / "d"
    for each in (programs, seen, rootfs / "etc", deployment / "code", tmp_path / "w s" / "images"):
        each.mkdir(parents=True)
    (rootfs / "etc" / "environment").write_text(f"OWN=image\nPATH={os.environ['PATH']}\n")
    (tmp_path / "w s" / "images" / "abc.sqsh").touch()
    (deployment / "code" / "train.sh").write_text(TRAIN)
    for name, text in {"enroot": ENROOT, "srun": SRUN, "squashfuse": "", "fuse-overlayfs": ""}.items():
        (programs / name).write_text(text or "#!/bin/bash\n")
        (programs / name).chmod(0o755)

    def with_runtime(runtime, **changes):
        job = PlannedJob(
            scheduler=Scheduler.SLURM, name="d", nodes=1, processes_per_node=1, cores_per_process=1, threads=1,
            walltime=60, environment={}, script="",
        )  # fmt: skip
        parts = ScriptParts(
            image="images/abc.sqsh", python="bash", script="train.sh", container_runtime=runtime, words=("last",),
            binds=("/opt/it's:/data:ro",), data=(DataPlace("mnist", "datasets/mnist"),),
        )._replace(**changes)  # fmt: skip
        (deployment / "job.sh").write_text(render_script(job, parts))
        told = {
            "PATH": f"{programs}:{os.environ['PATH']}", "SEEN": str(seen), "ROOTFS": str(rootfs), "OWN": "job",
            "GIVEN": "a b", "LINES": "a\nb", "SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": str(deployment), "HOME": str(tmp_path),
            "SLURM_CPUS_PER_TASK": "4", "SLURM_JOB_NODELIST": "node1",
        }  # fmt: skip
        done = subprocess.run(["bash", "job.sh"], cwd=deployment, env={**os.environ, **told}, check=False)
        return done.returncode, (deployment / "output.log").read_text(), (deployment / "error.log").read_text()

    with_runtime.deployment, with_runtime.seen = deployment, seen
    return with_runtime


@pytest.mark.component
def test_enroot_starts_the_training_in_its_folder_with_the_images_words_before_the_jobs(run):
    code, said, error = run("enroot", container_flags=("--env=NVIDIA_VISIBLE_DEVICES=all",))
    assert (code, said) == (3, f"{run.deployment}/code image a b all last\n"), error
    workspace = str(run.deployment.parents[1])
    assert (run.seen / "image").read_text() == f"{workspace}/images/abc.sqsh\n"
    escaped = workspace.replace(" ", "\\040")
    lines = (run.seen / "mounts").read_text().splitlines()
    assert lines[0] == f"{escaped} {escaped} none x-create=auto,rbind"
    data = f"{escaped}/datasets/mnist"
    assert lines[3:] == [
        f"{data} {data} none x-create=auto,rbind,ro",
        "/opt/it's /data none x-create=auto,rbind,ro",
    ]
    names = {line.partition("=")[0] for line in (run.seen / "environ").read_text().splitlines()}
    assert not names & {"OWN", "PATH", "LINES", "PWD", "ENROOT_ROOTFS", "b"}


@pytest.mark.component
def test_enroot_without_what_mounts_an_image_says_so(run, tmp_path):
    (tmp_path / "bin" / "squashfuse").unlink()
    code, said, error = run("enroot")
    assert (code, said) == (127, "")
    assert "squashfuse is not on the PATH" in error


@pytest.mark.component
def test_pyxis_has_srun_enter_the_container(run):
    code, said, error = run("pyxis", container_flags=("--container-env=NVIDIA_VISIBLE_DEVICES",))
    assert (code, said) == (3, f"{run.deployment}/code job a b all last\n"), error
    workspace, words = run.deployment.parents[1], (run.seen / "srun").read_text().splitlines()
    assert words[:3] == ["--nodes=1", "--ntasks=1", "--cpus-per-task=4"]
    assert f"--container-image={workspace}/images/abc.sqsh" in words
    mounts = next(word for word in words if word.startswith("--container-mounts="))
    assert mounts.partition("=")[2].split(",")[0] == f"{workspace}:{workspace}"
    assert mounts.endswith(f",{workspace}/datasets/mnist:{workspace}/datasets/mnist:ro,/opt/it's:/data:ro")


@pytest.mark.component
def test_pyxis_enters_once_where_srun_starts_the_ranks(run):
    launch = Launch(("srun", "--kill-on-bad-exit=1"), ranks=Ranks(1, 1))
    code, said, error = run("pyxis", launch=launch)
    assert (code, said.strip().split()[-1]) == (3, "last"), error
    words = (run.seen / "srun").read_text().splitlines()
    assert words[0] == "--kill-on-bad-exit=1"
    assert words.count("bash") == 2, "the rank's, and the training's own"
    assert len([word for word in words if word.startswith("--container-image=")]) == 1
