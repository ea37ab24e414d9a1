"""A planted secret, through whole deployments, and then looked for everywhere."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
from catalogues import path_of_catalogue_with
from cluster import ROOT, modak, run

pytestmark = [pytest.mark.testbed, pytest.mark.thorough]

ENTRY = """\
name: planted-1.0
framework: pytorch
version: "1.0"
origin: pip
architectures: [x86_64]
base: debian-trixie
requirements: [ modak-planted==1.0 ]
probe: |
  import modak_planted
  print("planted", modak_planted.VALUE)
provenance: a test
licence: MIT
"""
BEGAN = time.time()  # before any secret of these tests was drawn: older files hold none
CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1 "
    "-addext subjectAltName=IP:127.0.0.1,DNS:localhost -keyout {0}/key.pem -out {0}/cert.pem 2> /dev/null"
)


@pytest.fixture(scope="module")
def secret():
    return f"planted-{os.urandom(9).hex()}"


class Watch:
    """Looks for a word among the arguments of all processes of this machine."""

    def __init__(self, word: str) -> None:
        self.word, self.seen, self._over = word.encode(), set(), False
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over = True
        self._thread.join()

    def _look(self):
        while not self._over:
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = path.read_bytes()
                except OSError:
                    continue
                if self.word in words:
                    self.seen.add(words.replace(b"\0", b" ").decode(errors="replace"))
            time.sleep(0.05)


class Registry:
    """The registry and index of private_registry.py on the front end."""

    def __init__(self, testbed, secret):
        self.testbed = testbed
        self.folder = testbed.ssh("mktemp -d")
        text = base64.b64encode((ROOT / "tests" / "integration" / "private_registry.py").read_bytes()).decode()
        testbed.ssh(f"echo {text} | base64 -d > {self.folder}/server.py; {CERTIFICATE.format(self.folder)}")
        self._process = subprocess.Popen(
            ["ssh", "-F", str(testbed.folder / "ssh_config"), "testbed", f"python3 {self.folder}/server.py {self.folder}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._process.stdin.write(f"{secret}\n")
        self._process.stdin.flush()
        port, self.sha256_of_wheel = self._process.stdout.readline().split()
        self.host = f"127.0.0.1:{port}"

    @property
    def certificate(self) -> str:
        return f"{self.folder}/cert.pem"

    def end(self) -> dict:
        """What the server saw among the processes of the front end."""
        self._process.stdin.close()
        said = json.loads(self._process.stdout.read())
        self._process.wait(timeout=20)
        self.testbed.ssh(f"rm -r {self.folder}")
        return said


@pytest.fixture
def registry(testbed, secret):
    made = Registry(testbed, secret)
    yield made
    if not made._process.stdin.closed:
        made.end()


def look_everywhere(project, secret, *texts):
    """Asserts that a secret is nowhere: what was printed, this machine's files, the front end's, and the image."""
    for text in texts:
        assert secret not in text
    private = [project.path, Path.home() / ".ansible", Path.home() / ".modak"]
    private += [path for name in ("modak-*", "ansible*") for path in Path("/tmp").glob(name)]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    private += [Path(runtime)] if runtime else []
    for folder in private:
        found = subprocess.run(
            ["grep", "-rlaF", "--devices=skip", "-f", "-", folder],
            input=secret,
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.stdout == "", found.stdout
    image = f"modak/{project.plan()['image']['path']}"
    token = base64.b64encode(secret.encode()).decode()  # or the shell that looks would be found
    look = (
        f"word=$(echo {token} | base64 -d); cd; "
        "find modak .apptainer .ansible .bashrc .bash_history .config .docker /tmp -type f "
        f"""-newerct @{int(BEGAN)} -print0 2> /dev/null | xargs -0r grep -laF -e "$word"; """
        f'apptainer inspect --all {image} | grep -aF -e "$word"; '
        f'apptainer sif dump 1 {image} 2> /dev/null | grep -aF -e "$word"; true'
    )
    assert project.testbed.ssh(look) == ""
    return image


def environment(registry, secret):
    return {
        "MODAK_REGISTRY": registry.host, "MODAK_REGISTRY_USERNAME": "alice", "MODAK_REGISTRY_PASSWORD": secret,
        "MODAK_PIP_INDEX_URL": f"https://alice:{secret}@{registry.host}/simple".replace("127.0.0.1", "localhost"),
    }  # fmt: skip


def with_site(project, registry, **more):
    site = {"certificate_bundle": registry.certificate, **more}
    project.target["capabilities"]["site"] = {"properties": site}
    return project


def test_a_login_of_a_registry_is_used_and_found_nowhere(project, registry, secret):
    with_site(project, registry)
    project.image = {"source": f"docker://{registry.host}/small:1", "python": "/usr/bin/python"}
    path = f"modak/{project.plan()['image']['path']}"

    without = project.deploy()
    assert without.returncode == 1
    assert "unauthorized" in without.stderr.lower() or "authentication required" in without.stderr.lower(), (
        without.stderr
    )

    with Watch(secret) as watch:
        done = project.deploy("--json", **environment(registry, secret))
    assert done.returncode == 0, done.stderr
    assert (project.folder / "results" / "output.log").read_text() == "trained\n"
    plan = modak("plan", project.path, "--json", cwd=project.path, **environment(registry, secret))
    status = modak("status", project.path, "--json", cwd=project.path)
    assert watch.seen == set()
    there = registry.end()
    assert there["seen"] == []
    assert there["looks"] > 20
    look_everywhere(project, secret, done.stdout, done.stderr, plan.stdout, status.stdout)
    project.testbed.ssh(f"rm -f {path.removesuffix('sif')}*")


def test_a_token_of_an_index_is_used_and_found_nowhere(project, registry, secret, tmp_path, monkeypatch):
    lock = f"modak-planted==1.0 --hash=sha256:{registry.sha256_of_wheel}"
    monkeypatch.setenv("PYTHONPATH", path_of_catalogue_with(tmp_path, "planted-1.0", ENTRY, lock))
    with_site(project, registry)
    project.training["optimisation"] = {"entry": "planted-1.0"}
    path = f"modak/{project.plan()['image']['path']}"
    project.testbed.ssh(f"rm -f {path.removesuffix('sif')}*")

    kept = tmp_path / "outside" / "secrets.yaml"
    kept.parent.mkdir()
    kept.write_text(json.dumps({"pip": {"index-url": environment(registry, secret)["MODAK_PIP_INDEX_URL"]}}))
    kept.chmod(0o600)
    with Watch(secret) as watch:
        done = project.deploy("--json", MODAK_SECRETS=str(kept))
    assert done.returncode == 0, done.stderr
    log = project.testbed.ssh(f"cat {path.removesuffix('sif')}log")
    assert "modak_planted-1.0" in log or "modak-planted" in log
    assert watch.seen == set()
    assert registry.end()["seen"] == []
    look_everywhere(project, secret, done.stdout, done.stderr, log)
    inside = project.testbed.ssh(
        f"apptainer exec --containall --no-home {path} sh -c 'ls -d /.modak-site 2> /dev/null; cat /opt/venv/requirements.txt'"
    )
    assert inside == "modak-planted==1.0"

    opera = ROOT / ".venv-opera" / "bin"
    if opera.is_dir():
        told = {"MODAK_SECRETS": str(kept), "PATH": f"{opera}:/usr/bin:/bin"}
        again = run(opera / "opera", "deploy", "-c", "-f", "service.yaml", cwd=project.path, **told)
        assert again.returncode == 0, again.stderr
        look_everywhere(project, secret, again.stdout, again.stderr)
    project.testbed.ssh(f"rm -f {path.removesuffix('sif')}*")


def test_a_secret_among_inputs_is_refused_by_all_that_stores_it(project, secret):
    project.training["environment"] = {"WANDB_API_KEY": secret}
    done = project.deploy("--json")
    assert done.returncode == 3
    assert "secret: WANDB_API_KEY looks like a secret" in done.stderr
    assert "MODAK_SECRETS" in done.stderr
    assert secret not in done.stdout + done.stderr
    assert not (project.path / ".modak" / "deployments").exists()
