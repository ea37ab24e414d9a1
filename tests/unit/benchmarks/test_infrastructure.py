"""The infrastructure benchmarks, with sizes that take no time; what only an accelerator or MPI has is run elsewhere."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import yaml
from infrastructure import BENCHMARKS, measured, module, run

from modak_ansible.model.measured.record import Measure
from modak_ansible.model.measured.workload import Workload

WORKLOADS = (
    "container_start", "matrix_peak", "memory_bandwidth", "network", "scaling", "scaling_nodes", "startup", "storage",
)  # fmt: skip
SCRIPTS = {
    "container_start/container_start.py",
    "memory_bandwidth/memory_bandwidth.py",
    "network/gloo.py",
    "network/network.py",
    "scaling/scaling.py",
    "scaling_nodes/nodes.py",
    "startup/startup.py",
    "storage/storage.py",
}


@pytest.fixture
def metrics(tmp_path):
    return tmp_path / "measures" / "metrics.json"


@pytest.fixture(autouse=True)
def _folder_of_measures(metrics):
    metrics.parent.mkdir()


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_says_what_it_has(name):
    workload = Workload(**yaml.safe_load((BENCHMARKS / name / "workload.yaml").read_text()))
    assert (workload.name, workload.kind) == (name, "infrastructure")
    for script in workload.scripts:
        text = (BENCHMARKS / name / script.script).read_text()
        assert all(f'"--{switch.replace("_", "-")}"' in text for switch in script.switches)


@pytest.mark.component
@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_a_script_explains_itself_and_refuses_what_it_does_not_know(script, metrics):
    helped = run(script, metrics, "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "--samples" in helped.stdout
    refused = run(script, metrics, "--no-such-option")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1


@pytest.mark.component
def test_measures_that_cannot_be_written(tmp_path):
    done = run("storage/storage.py", tmp_path / "nowhere" / "metrics.json", "--place", f"a={tmp_path}")
    assert done.returncode == 2
    assert "cannot be written: No such file or directory" in done.stderr


@pytest.mark.component
def test_storage_measures_each_place_and_leaves_nothing(tmp_path, metrics):
    places = [tmp_path / "first", tmp_path / "second"]
    for place in places:
        place.mkdir()
    named = [option for place in places for option in ("--place", f"{place.name}={place}")]
    done = run("storage/storage.py", metrics, *named, "--megabytes", "5", "--files", "150", "--samples", "2")
    assert done.returncode == 0, done.stderr
    found = measured(metrics)
    assert set(found) == {"write", "read", "small_files_write", "small_files_read"}
    assert all(Measure(**each).about["storage"] == "second" for each in found.values())
    assert len(found["write"]["samples"]) == 2
    assert found["read"]["about"]["cache"] in {"O_DIRECT", "posix_fadvise"}
    assert not any(list(place.iterdir()) for place in places)


@pytest.mark.component
def test_storage_that_is_stopped_leaves_nothing(tmp_path, metrics):
    place = tmp_path / "place"
    place.mkdir()
    command = [sys.executable, "storage.py", "--place", f"a={place}", "--files", "100000", "--megabytes", "5"]
    variables = {**os.environ, "MODAK_METRICS": str(metrics)}
    process = subprocess.Popen(command, cwd=BENCHMARKS / "storage", env=variables, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 20
    while not list(place.glob("*/small/*/*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, complaint = process.communicate(timeout=20)
    assert process.returncode == 143
    assert complaint.count(b"\n") == 1
    assert not list(place.iterdir())
    assert not json.loads(metrics.read_text())["finished"]


@pytest.mark.component
def test_storage_that_is_not_there(metrics):
    done = run("storage/storage.py", metrics, "--place", "a=/nowhere")
    assert (done.returncode, done.stderr) == (2, "error: a: /nowhere: No such file or directory\n")


@pytest.mark.parametrize(("wanted", "free", "blocks"), [(2**30, 2**40, 256), (2**30, 10 * 2**24, 4), (2**30, 2**20, 0)])
def test_no_more_than_a_tenth_of_the_free_space_is_filled(wanted, free, blocks):
    storage = module("storage/storage.py")
    assert storage.size_that_fits(wanted, free) == blocks * storage.BLOCK


def test_the_file_system_is_the_innermost_mount(tmp_path):
    storage = module("storage/storage.py")
    mounts = tmp_path / "mounts"
    mounts.write_text(f"a / ext4 rw 0 0\nb {tmp_path} nfs4 rw 0 0\nc {tmp_path}/other tmpfs rw 0 0\n")
    assert storage.file_system(tmp_path / "inner", mounts) == "nfs4"
    assert storage.file_system(tmp_path, tmp_path / "none") == ""


def test_a_mount_may_have_any_name(tmp_path):
    storage = module("storage/storage.py")
    mounts = tmp_path / "mounts"
    other = os.fsencode(tmp_path) + b"/caf\xe9 tmpfs rw 0 0\n"
    mounts.write_bytes(b"a / ext4 rw 0 0\nb " + other + os.fsencode(f"c {tmp_path}/my\\040disk lustre rw 0 0\n"))
    assert storage.file_system(tmp_path / "my disk", mounts) == "lustre"
    assert storage.file_system(tmp_path / os.fsdecode(b"caf\xe9"), mounts) == "tmpfs"


@pytest.mark.component
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_memory_bandwidth(metrics):
    done = run("memory_bandwidth/memory_bandwidth.py", metrics, "--megabytes", "1", "--samples", "3")
    assert done.returncode == 0, done.stderr
    found = measured(metrics)
    assert {name: len(each["samples"]) for name, each in found.items()} == {"copy": 3, "triad": 3}
    assert all(0.01 < sample < 10000 for sample in found["triad"]["samples"])


@pytest.mark.component
def test_memory_bandwidth_without_a_compiler(tmp_path, metrics):
    done = run("memory_bandwidth/memory_bandwidth.py", metrics, "--megabytes", "1", PATH=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("error: no gcc on the PATH")


@pytest.mark.component
def test_memory_bandwidth_without_the_memory(metrics):
    done = run("memory_bandwidth/memory_bandwidth.py", metrics, "--megabytes", "100000000")
    assert done.returncode == 2
    assert "three arrays need 300000000 MB" in done.stderr


def test_the_last_level_caches_count_once_for_all_that_share_them(tmp_path):
    memory = module("memory_bandwidth/memory_bandwidth.py")
    for core, shared in enumerate(("0-1", "0-1", "2-3", "2-3")):
        for index, (level, kind, size, cores) in enumerate(
            [(1, "Instruction", "32K", core), (1, "Data", "32K", core), (3, "Unified", "16384K", shared)]
        ):
            folder = tmp_path / f"cpu{core}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            for name, text in {"level": level, "type": kind, "size": size, "shared_cpu_list": cores}.items():
                (folder / name).write_text(f"{text}\n")
    assert memory.last_level_caches(tmp_path) == 2 * 16 * 2**20
    assert memory.last_level_caches(tmp_path / "none") == 0
    assert memory.array_bytes(32 * 2**20, 2**33) == 128 * 2**20
    assert memory.array_bytes(32 * 2**20, 2**29) == 0
    assert memory.array_bytes(0, 2**33) == memory.LEAST


def test_flop_of_the_shapes():
    shapes = module("matrix_peak/shapes.py")
    assert shapes.Product(1000, 1000, 1000).gflop == pytest.approx(2.0)
    # 64 x 12 x 12 would be the MNIST-CNN's after pooling; its second convolution leaves 24 x 24.
    second = shapes.Convolution(128, 32, 64, 26, 0)
    assert second.gflop("forward") == pytest.approx(2e-9 * 128 * 64 * 24 * 24 * 32 * 9)
    assert second.gflop("training") == pytest.approx(3 * second.gflop("forward"))
    first = shapes.Convolution(128, 1, 32, 28, 0, images=True)
    assert first.gflop("training") == pytest.approx(2 * first.gflop("forward"))
    assert shapes.Convolution(8, 64, 64, 56, 1).gflop("forward") == pytest.approx(2e-9 * 8 * 64 * 64 * 9 * 56 * 56)
    assert len(shapes.rates(lambda: time.sleep(0.05), 1.0, 2)) == 2


def test_what_a_processor_emulates_keeps_nobody_waiting(monkeypatch):
    """bf16 where there is only AVX2: 0.3 GFLOP/s, so that all products and their samples took more than a job's time."""
    shapes = module("matrix_peak/shapes.py")
    now, calls, added = [0.0], [], []
    monkeypatch.setattr(shapes.machine, "clock", lambda: now[0])

    def computing(work, *about):
        gflop = work.gflop if not about else work.gflop(*about)

        def compute():
            now[0] += gflop / 0.5
            calls.append(str(work))

        return compute

    class Added:
        def add(self, name, samples, **about):
            added.append((name, len(samples), about["shape"], about["precision"]))

    monkeypatch.setattr(shapes, "timed", lambda compute, samples, repeats: [1.0] * samples)
    shapes.measure_products(Added(), 5, False, computing, precision="bf16")
    assert added[0] == ("sgemm", 1, "1024x1024x1024", "bf16")
    assert "2048x2048x2048" not in calls and "128x9216x128" in calls
    shapes.measure_convolutions(Added(), 5, False, computing, precision="bf16")
    assert now[0] < 60


def test_a_switch_that_the_machine_has_not_got(capsys):
    shapes = module("matrix_peak/shapes.py")
    assert shapes.chosen("all", ("fp32", "bf16")) == ["fp32", "bf16"]
    assert shapes.chosen("bf16", ("fp32", "bf16")) == ["bf16"]
    with pytest.raises(SystemExit) as caught:
        shapes.chosen("tf32", ("fp32", "bf16"))
    assert caught.value.code == 2
    assert "tf32" in capsys.readouterr().err


@pytest.mark.component
def test_starts_of_python_and_of_a_module(tmp_path, metrics):
    (tmp_path / "framework.py").write_text("")
    options = ("--samples", "2", "--cold-samples", "1", "--module", "framework")
    done = run("startup/startup.py", metrics, *options, PYTHONPATH=str(tmp_path), MODAK_LAUNCHED=str(time.time()))
    assert done.returncode == 0, done.stderr
    found = measured(metrics)
    assert set(found) == {"launch", "python_start", "import"}
    assert found["import"]["about"]["module"] == "framework"
    assert found["import"]["about"]["cache"] == "cold"
    assert 0 < found["launch"]["samples"][0] < 30


@pytest.mark.component
def test_a_module_that_is_not_there_or_fails(tmp_path, metrics):
    missing = run("startup/startup.py", metrics, "--module", "framework")
    assert (missing.returncode, missing.stderr) == (2, "error: Python has no module framework\n")
    (tmp_path / "framework.py").write_text("raise ImportError('no libcuda')")
    options = ("--samples", "1", "--cold-samples", "1", "--module", "framework")
    failing = run("startup/startup.py", metrics, *options, PYTHONPATH=str(tmp_path))
    assert (failing.returncode, failing.stderr) == (1, "error: ImportError: no libcuda\n")


@pytest.fixture
def runtime(tmp_path):
    """A runtime that starts every image but broken.sif; it sees that it is asked as the real one is."""
    program = tmp_path / "bin" / "apptainer"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && { echo apptainer version 1.4.5; exit; }\n[ "$1 $3" = "exec true" ] || exit 9\n'
        'case $2 in *broken*) echo "FATAL: not an image" >&2; exit 255;; esac\n'
    )
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


@pytest.mark.component
def test_container_start(tmp_path, runtime, metrics):
    images = [tmp_path / "broken.sif", tmp_path / "good.sif"]
    named = []
    for image in images:
        image.write_bytes(bytes(1000))
        named += ["--image", str(image)]
    done = run("container_start/container_start.py", metrics, *named, "--samples", "2", PATH=runtime)
    assert (done.returncode, done.stderr) == (0, "broken.sif: FATAL: not an image\n")
    found = measured(metrics)
    assert found["container_start"]["about"]["image"] == "good"
    assert len(found["process_start"]["samples"]) == 2
    none = run("container_start/container_start.py", metrics, *named[:2], PATH=runtime)
    assert none.returncode == 1


@pytest.mark.component
def test_container_start_without_what_it_needs(tmp_path, runtime, metrics):
    script = "container_start/container_start.py"
    assert "no image in" in run(script, metrics, PATH=runtime).stderr
    assert "is not on the PATH" in run(script, metrics, PATH=str(tmp_path)).stderr
    inside = run(script, metrics, PATH=runtime, SINGULARITY_NAME="some.sif")
    assert (inside.returncode, inside.stderr) == (2, "error: this is a container already; run it natively\n")


def test_messages_of_the_network():
    network = module("network/network.py")
    assert network.rounds(8) == 1000
    assert network.rounds(4 * 2**20) == 16
    assert network.rounds(2**30) == 4
    listing = (
        "mca:base:param\nmca:btl:self:version:a\nmca:btl:self:version:b\nmca:btl:tcp:version\nmca:btl:base:verbose\n"
    )
    assert network.transport_names(listing) == ["self", "tcp"]
    assert network.mpi_name("Open MPI v5.0.7, package: Debian OpenMPI\0") == "Open MPI v5.0.7"


def test_settings_of_the_network(monkeypatch):
    monkeypatch.setenv("OMPI_MCA_btl_tcp_if_include", "lo")
    monkeypatch.setenv("OMPI_MCA_orte_precondition_transports", "0000001200000000")  # a number of the job
    assert module("network/network.py").settings() == "btl_tcp_if_include=lo"
