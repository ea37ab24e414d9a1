"""Data on its way to the testbed."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import secrets
import tarfile

import numpy as np
import pytest
from hub_server import Repository, hub_at_loopback
from loopback import answering
from test_secrets import Watch, look_everywhere
from test_three_doors import ansible, opera

from modak_ansible.catalogue import idx

pytestmark = pytest.mark.testbed


def write_data(folder):
    """A small dataset of its own, as MNIST's files would be; gives the checksums."""
    folder.mkdir()
    random = np.random.RandomState(7)
    idx.write(folder / "train-images-idx3-ubyte.gz", random.randint(0, 255, (200, 28, 28)).astype(np.uint8))
    idx.write(folder / "train-labels-idx1-ubyte.gz", random.randint(0, 9, 200).astype(np.uint8))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "served"
    checksums = write_data(folder)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *arguments):
            pass

    with answering(Handler) as running:
        yield f"http://127.0.0.1:{running.server_port}/", checksums


def staged(project):
    return json.loads(project.testbed.ssh(f"cat modak/{project.plan()['dataset']['path']}.manifest.json"))


def remove(project):
    project.testbed.ssh(f"rm -rf modak/{project.plan()['dataset']['path']}*")


def test_a_folder_of_ones_own(project, tmp_path):
    checksums = write_data(tmp_path / "data")
    project.dataset = {"name": "own", "source": [str(tmp_path / "data")]}
    assert project.deploy().returncode == 0
    assert {file["name"]: file["sha256"] for file in staged(project)["files"]} == checksums
    project.training["arguments"] = {"again": 1}
    again = project.deploy("--json")
    assert json.loads(again.stdout)["stages"]["dataset"]["changed"] is False
    remove(project)


def test_an_interrupted_transfer_goes_on(project, tmp_path):
    write_data(tmp_path / "data")
    project.dataset = {"name": "own", "source": [str(tmp_path / "data")]}
    path = project.plan()["dataset"]["path"]
    folder, name = path.rsplit("/", 1)
    part = base64.b64encode((tmp_path / "data" / "train-images-idx3-ubyte.gz").read_bytes()[:1000]).decode()
    partial = f"modak/{folder}/.{name}.part"
    project.testbed.ssh(f"mkdir -p {partial} && echo {part} | base64 -d > {partial}/train-images-idx3-ubyte.gz")
    assert project.deploy().returncode == 0
    assert len(staged(project)["files"]) == 2
    remove(project)


def test_an_address_is_tried_before_the_next_source(project, server):
    address, checksums = server
    project.dataset = {"name": "own", "source": [f"{address}none/", address], "checksum": checksums}
    done = project.deploy()
    assert done.returncode == 0, done.stderr
    assert "404" in done.stdout
    assert staged(project)["location"] == address
    remove(project)


def test_a_wrong_checksum_falls_to_digits_and_says_so(project, server):
    address, checksums = server
    project.dataset = {"name": "mnist", "source": [address, "digits"], "checksum": dict.fromkeys(checksums, "0" * 64)}
    done = project.deploy()
    assert done.returncode == 0, done.stderr
    assert "not 0000" in done.stdout
    assert "drawn digits, not MNIST" in done.stdout
    assert staged(project)["source"] == "digits"
    remove(project)


def test_no_source_has_it(project, server):
    address, checksums = server
    project.dataset = {"name": "own", "source": [f"{address}a/", f"{address}b/"], "checksum": checksums}
    done = project.deploy()
    assert done.returncode == 1
    assert "no source has the dataset own" in done.stderr
    assert f"{address}a/" in done.stderr
    assert project.jobs() == []


LOOKS = """
import os, pathlib, sys
here = pathlib.Path
assert here("data/corpus.txt").read_text() == "To be\\n", os.listdir("data")
assert here(os.environ["MODAK_DATASET"], "corpus.txt").samefile("data/corpus.txt")
assert sorted(each.name for each in here("../pictures").rglob("*.png")) == ["1.png", "2.png"]
assert here(os.environ["MODAK_DATASET_PICTURES"], "cat", "1.png").read_text() == "one"
assert here(os.environ["THERE"]).read_text() == "large", sys.argv
assert sys.argv[1:] == ["--there", os.environ["THERE"]]
for place in ("data/corpus.txt", "../pictures/cat/1.png", os.environ["THERE"], "../pictures/new"):
    try:
        here(place).open("a")
    except OSError as error:
        print("not to be written:", error.strerror)
print("before:", here("before").read_text().strip())
"""


def test_any_data_lies_where_the_script_looks_for_it(project, tmp_path):
    """A file, an archive and a path of the target, each mounted or named, and none to be written."""
    (tmp_path / "corpus.txt").write_text("To be\n")
    for name, content in (("cat/1.png", "one"), ("dog/2.png", "two")):
        (tmp_path / "pictures" / name).parent.mkdir(parents=True)
        (tmp_path / "pictures" / name).write_text(content)
    with tarfile.open(tmp_path / "pictures.tar.gz", "w:gz") as made:
        for each in ("cat", "dog"):
            made.add(tmp_path / "pictures" / each, each)
    project.testbed.ssh("mkdir -p there && echo -n large > there/file")
    host = [{"host": "cluster"}]
    project.dataset = {"name": "corpus", "source": [str(tmp_path / "corpus.txt")], "mount_as": "data/corpus.txt"}
    pictures = {"name": "pictures", "source": [str(tmp_path / "pictures.tar.gz")], "mount_as": "../pictures"}
    project.others = {
        "pictures": {"type": "modak.nodes.Dataset", "properties": pictures, "requirements": host},
        "there": {
            "type": "modak.nodes.Dataset",
            "properties": {"name": "there", "on_target": "~/there/file"},
            "requirements": host,
        },
    }
    project.more = [{"dataset": "pictures"}, {"dataset": "there"}]
    project.training.update(
        arguments={"there": "{dataset.there}"},
        environment={"THERE": "{dataset.there}"},
        pre_execution=["cat {dataset}/corpus.txt $MODAK_DATASET_THERE > before"],
        optimisation={"staging": "shared"},
    )
    project.script(LOOKS)
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    log = project.testbed.ssh(f"cat modak/deployments/{project.deployment}/output.log")
    assert log.count("not to be written: ") == 4
    assert log.count("Read-only file system") == 2  # of the path there, and of a new file beside what was staged
    assert "before: To be\nlarge" in log
    again = project.deploy("--json")
    assert json.loads(again.stdout)["stages"]["dataset"]["changed"] is False
    data = [project.plan()["dataset"], *project.plan()["more_datasets"]]
    project.testbed.ssh("rm there/file")
    project.training["arguments"]["more"] = 1
    gone = project.deploy()
    assert gone.returncode == 1
    assert "there/file on the target: No such file or directory" in gone.stderr
    project.testbed.ssh("rm -rf there " + " ".join(f"modak/{each['path']}*" for each in data))


def test_a_private_dataset_of_a_hub_is_fetched_by_the_target_with_a_token_that_is_found_nowhere(project, monkeypatch):
    """At the commit that was planned; the token is handed on, and written nowhere."""
    token = f"hf_{secrets.token_hex(12)}"
    with hub_at_loopback() as hub:
        hub.repositories["team/plays"] = Repository(token=token)
        commit = hub.repositories["team/plays"].commit({"data/corpus.txt": project.name, "large.bin": b"x" * 10**6})
        project.dataset = {"name": "plays", "source": ["hf://datasets/team/plays"], "mount_as": "plays"}
        project.script("print(open('plays/data/corpus.txt').read(), len(open('plays/large.bin').read()))")
        project.training["framework"] = "python"
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("HF_TOKEN", token)
        with Watch(token) as watch:
            done = project.deploy()
        assert done.returncode == 0, done.stdout + done.stderr
        assert "from the target" in done.stdout
        assert "fetching it from here" not in done.stdout
        assert (project.folder / "results" / "output.log").read_text() == f"{project.name} 1000000\n"
        assert watch.seen == set()
        assert staged(project)["location"] == f"hf://datasets/team/plays@{commit}"
        look_everywhere(project, token, done.stdout, done.stderr)
        for door in ("ansible", "opera"):  # each brings what a newer commit holds
            remove(project)
            commit = hub.repositories["team/plays"].commit({"data/corpus.txt": door, "large.bin": b"x" * 10**6})
            with Watch(token) as watch:
                done = ansible(project) if door == "ansible" else opera(project, "deploy", "-c", "-f", "service.yaml")
            assert done.returncode == 0, done.stdout + done.stderr
            assert (project.folder / "results" / "output.log").read_text() == f"{door} 1000000\n"
            assert (staged(project)["location"], watch.seen) == (f"hf://datasets/team/plays@{commit}", set())
            look_everywhere(project, token, done.stdout, done.stderr)
        remove(project)
