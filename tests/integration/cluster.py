"""The real testbed, and projects that deploy to it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sys.executable).parent
MODAK = SCRIPTS / "modak"
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL")


def thorough(*cases: object) -> list[object]:
    """Cases of a parametrized test that only make thorough runs."""
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*value, marks=pytest.mark.thorough) for value in values]


def has_root() -> bool:
    if os.geteuid() == 0:
        return True
    try:
        return subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def run(
    *command: object, cwd: Path = ROOT, timeout: float = 900, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end; what it printed is in the result."""
    return subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False,
        env={**os.environ, "PATH": f"{SCRIPTS}:{os.environ['PATH']}", "COLUMNS": "200", **environment},
    )  # fmt: skip


def modak(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    return run(MODAK, *arguments, **options)


def wait_for(
    condition: Callable[[], object], seconds: float = 90, every: float = 0.5, describe: Callable[[], str] = str
) -> None:
    """Returns when a condition holds; where it does not within some seconds, fails with what describe returns."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not come to that: {describe()}"
        time.sleep(every)


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes with a file; nothing for one that is gone meanwhile."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def play_testbed(state: str, name: str, folder: Path, **extra: object) -> None:
    """Has a testbed be up, down or purged, as the role has these words."""
    variables = {"testbed_state": state, "testbed_name": name, "testbed_directory": str(folder), **extra}
    result = run(
        SCRIPTS / "ansible-playbook", "playbooks/testbed.yml", "-e", json.dumps(variables),
        ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"),
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr


class Testbed:
    """A testbed that runs: the checkout's, where no other folder is named."""

    __test__ = False

    def __init__(self, folder: Path = ROOT / ".modak" / "testbed") -> None:
        self.folder = folder

    @property
    def state(self) -> dict:
        return json.loads((self.folder / "state.json").read_text())

    def ssh(self, command: str) -> str:
        """What a command prints on the front end, as the ordinary user."""
        result = run("ssh", "-F", self.folder / "ssh_config", "testbed", command)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    def root(self, command: str) -> str:
        """What a command prints in the box, as root."""
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        entry = ROOT / "roles" / "testbed" / "files" / "enter-box.sh"
        result = run(*sudo, "bash", entry, self.state["root"], "bash", "-c", command)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    def root_process(self, command: str) -> subprocess.Popen[bytes]:
        """A command that goes on in the box, as root."""
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        entry = ROOT / "roles" / "testbed" / "files" / "enter-box.sh"
        return subprocess.Popen([*sudo, "bash", str(entry), self.state["root"], "bash", "-c", command])

    def reboot(self) -> None:
        """Ends the whole box with all that runs in it, and starts it again."""
        name = self.state["name"]
        play_testbed("down", name, self.folder)
        play_testbed("up", name, self.folder)

    def jobs(self, name: str) -> list[str]:
        """The ids of all jobs that ever had a name."""
        rows = self.ssh(
            f"sacct --noheader --parsable2 --allocations --starttime=now-1days --endtime=now+1days --name={name} --format=JobIDRaw"
        )
        return rows.split()


class Project:
    """A user's project: a blueprint of its own that deploys to the testbed."""

    def __init__(self, path: Path, testbed: Testbed) -> None:
        self.path = path
        self.testbed = testbed
        (path / ".modak").mkdir(parents=True)
        (path / ".modak" / "testbed").symlink_to(testbed.folder)
        for name, target in (("types", "tosca/types"), ("playbooks", "playbooks")):
            (path / name).symlink_to(ROOT / target)
        (path / "train").mkdir()
        self.name = f"test-{uuid.uuid4().hex[:8]}"
        self.created = time.time()
        self.temporary = path.with_name(f"{path.name}-tmp")
        self.temporary.mkdir()
        # what a command of the project's starts, and what it keeps in passing, is known by these
        self.environment = {"MODAK_TEST": self.name, "TMPDIR": str(self.temporary)}
        self.target = {
            "type": "modak.nodes.Slurm",
            "attributes": {"public_address": "testbed"},
            "properties": {"partitions": [{"name": "debug", "nodes": 2, "cores": 1, "memory": "4000 MB"}]},
            "capabilities": {"scratch": {"properties": {"path": "/scratch"}}},
        }
        self.dataset: dict | None = None
        self.image: dict | None = None
        self.training = {"framework": "pytorch", "script": "train/train.py", "walltime": "00:05:00"}
        self.others: dict[str, dict] = {}
        self.more: list[dict] = []  # what else the training requires
        self._planned: tuple[frozenset, str] = frozenset(), ""
        self.script("print('hello')\n")

    def script(self, text: str, name: str = "train.py") -> Project:
        (self.path / "train" / name).write_text(text)
        return self

    def write(self) -> Path:
        """The blueprint's folder, with the service template as the attributes have it."""
        nodes = {
            "cluster": self.target,
            "training": {
                "type": "modak.nodes.Training",
                "properties": self.training,
                "requirements": [
                    {"host": "cluster"},
                    *([{"dataset": "data"}] if self.dataset else []),
                    *self.more,
                    *([{"image": "image"}] if self.image else []),
                ],
            },
        }
        host = [{"host": "cluster"}]
        if self.image:
            nodes["image"] = {"type": "modak.nodes.Image", "properties": self.image, "requirements": host}
        if self.dataset:
            nodes["data"] = {"type": "modak.nodes.Dataset", "properties": self.dataset, "requirements": host}
        nodes.update(self.others)
        outputs = {
            name: {"value": {"get_attribute": ["training", name]}}
            for name in ("job_id", "job_state", "results", "plan_digest")
        }
        template = {
            "tosca_definitions_version": "tosca_simple_yaml_1_3",
            "metadata": {"template_name": self.name},
            "imports": ["types/modak.yaml"],
            "topology_template": {"node_templates": nodes, "outputs": outputs},
        }
        service, text = self.path / "service.yaml", yaml.safe_dump(template, sort_keys=False)
        if not service.exists() or service.read_text() != text:
            service.write_text(text)
        return self.path

    def deploy(self, *options: object, **overrides) -> subprocess.CompletedProcess[str]:
        return modak("deploy", self.write(), *options, cwd=self.path, **{**self.environment, **overrides})

    def start(self, *options: object) -> subprocess.Popen[str]:
        """Begins a deployment in a process group of its own."""
        return subprocess.Popen(
            [str(MODAK), "deploy", str(self.write()), *map(str, options)], cwd=self.path, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **self.environment},
        )  # fmt: skip

    def undeploy(self) -> subprocess.CompletedProcess[str]:
        return modak("undeploy", self.path, cwd=self.path, **self.environment)

    def clear(self) -> None:
        """Ends what still runs of the project's, and removes all of it from the testbed.

        For what has ended, that takes no modak undeploy, which has tests of its own.
        """
        finished = []
        for folder in (self.path / ".modak" / "deployments").glob("*/"):
            try:
                record = json.loads((folder / "state.json").read_text())
            except (OSError, ValueError):
                record = {"stage": "job"}
            has_ended = (record.get("job") or {}).get("state") in ENDED
            if has_ended or record.get("stage") in ("target", "dataset", "image"):
                finished += [folder.name, f".{folder.name}.*"]
            elif not record.get("undeployed"):
                modak("undeploy", folder.name, cwd=self.path, **self.environment)
        if finished:
            workspace = shlex.quote(self.target["properties"].get("workspace", "modak"))
            command = f"cd {workspace}/deployments && rm -rf {' '.join(finished)}"
            run("ssh", "-F", self.testbed.folder / "ssh_config", "testbed", command)

    def plan(self) -> dict:
        """What modak plan says, which it is asked again once something of the project has changed."""
        self.write()
        state = self.path / ".modak"
        files = [path for path in self.path.rglob("*") if state / "deployments" not in path.parents]
        stamps = frozenset((path, *_stamp(path)) for path in files)
        if self._planned[0] != stamps:
            result = modak("plan", self.path, "--json", cwd=self.path)
            assert result.returncode == 0, result.stderr
            self._planned = stamps, result.stdout
        return json.loads(self._planned[1])

    @property
    def deployment(self) -> str:
        plan = self.plan()
        return f"{plan['name']}-{plan['digest'][:12]}"

    @property
    def folder(self) -> Path:
        """The deployment's folder here."""
        return self.path / ".modak" / "deployments" / self.deployment

    @property
    def remote(self) -> str:
        """The deployment's folder on the testbed."""
        return f"{self.target['properties'].get('workspace', 'modak')}/deployments/{self.deployment}"

    @property
    def record(self) -> dict:
        return json.loads((self.folder / "state.json").read_text())

    def jobs(self) -> list[str]:
        return self.testbed.jobs(shlex.quote(self.deployment))

    def wait_for_output(self, text: str) -> None:
        """Returns once the job has printed a text."""
        log = f"{self.remote}/output.log"
        wait_for(lambda: text in self.testbed.ssh(f"cat {log} 2> /dev/null || true"), 180)
