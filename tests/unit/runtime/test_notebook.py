"""What runs in a notebook's job, with a server that stands for JupyterLab's: its token, its files, its end."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

from modak_ansible.runtime import FILES

# As much of jupyterlab, jupyter_server and tornado as the program touches; what it does is noted.
FAKE = """\
import datetime, json, os, pathlib, signal, stat, sys, time
class Handler:
    updated = []
    def __init__(self, method, path): self.request = type("Request", (), {"method": method, "path": path})
    def update_api_activity(self): self.updated.append(f"{self.request.method} {self.request.path}")
class Callback:
    def __init__(self, function, every): assert every >= 2000
    def start(self): pass
class Server:
    ip, port = "10.0.0.1", 4242
    shutdown_no_activity = None
    class web_app:
        last_activity = staticmethod(lambda: datetime.datetime.fromtimestamp(
            time.time() - float(os.environ["QUIET"]), datetime.timezone.utc))
    def start(self):
        for each in ("GET /api/kernels", "PUT /lab/api/workspaces/default", "PUT /api/contents/mine.ipynb"):
            Handler(*each.split()).update_api_activity()
        here = pathlib.Path.cwd().parent
        path = here / "jupyter" / "connection.json"
        seen = {"connection": json.loads(path.read_text()), "updated": Handler.updated, "words": self.words}
        seen |= {"mode": stat.S_IMODE(path.stat().st_mode), "folder": stat.S_IMODE(path.parent.stat().st_mode)}
        seen |= {"cmdline": open("/proc/self/cmdline").read(), "environ": dict(os.environ)}
        (here / "seen.json").write_text(json.dumps(seen))
        if os.environ.get("KILL"): os.kill(os.getpid(), signal.SIGTERM)
class LabApp:
    @staticmethod
    def initialize_server(argv):
        signal.signal(signal.SIGTERM, lambda *_: None)
        server = Server()
        server.words = argv
        if os.environ.get("FAST"):  # idle for longer than it has been there
            time.time = lambda before=time.time: before() + 100 * len(Handler.updated)
        return server
APIHandler, PeriodicCallback = Handler, Callback
"""
MODULES = {
    "jupyterlab/labapp.py": "from fake import LabApp",
    "jupyter_server/base/handlers.py": "from fake import APIHandler",
    "tornado/ioloop.py": "from fake import PeriodicCallback",
}

pytestmark = pytest.mark.component


@pytest.fixture
def job(tmp_path):
    """Runs the program in a deployment's folder."""
    for name, text in {**MODULES, "fake.py": FAKE}.items():
        path = tmp_path / "modules" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in ("code", "state"):
        (tmp_path / name).mkdir()

    def run(*, has_jupyter=True, idle=60, **environment):
        return subprocess.run(
            [sys.executable, "-S", FILES / "modak_notebook.py", str(idle)], cwd=tmp_path / "code", capture_output=True,
            text=True, check=False, timeout=60,
            env={**os.environ, "QUIET": "0", "PYTHONPATH": str(tmp_path / "modules") if has_jupyter else "", **environment},
        )  # fmt: skip

    run.folder = tmp_path
    return run


def test_its_token_is_in_a_file_of_its_users_alone_and_in_no_command_line(job):
    done = job(JUPYTER_TOKEN="easy", JUPYTER_CONFIG_PATH="/theirs", MODAK_CHOICES="compiler=inductor")
    seen = json.loads((job.folder / "seen.json").read_text())
    token = seen["connection"]["token"]
    assert (seen["connection"]["address"], seen["connection"]["port"]) == ("10.0.0.1", 4242)
    assert (seen["mode"], seen["folder"]) == (0o600, stat.S_IRWXU)
    assert f"--IdentityProvider.token={token}" in seen["words"]
    assert len(token) > 40
    assert token not in seen["cmdline"] + json.dumps(seen["environ"]) + done.stdout + done.stderr
    assert not {"JUPYTER_TOKEN", "JUPYTER_CONFIG_PATH", "MODAK_CHOICES"} & set(seen["environ"])
    assert not (job.folder / "jupyter").exists()


def test_a_page_that_only_looks_on_is_no_work(job):
    job()
    assert json.loads((job.folder / "seen.json").read_text())["updated"] == ["PUT /api/contents/mine.ipynb"]


def test_its_end_says_whose_it_was(job):
    noted = job.folder / "state" / "cancelled"
    assert job().returncode == 143
    assert noted.read_text() == "its user, from JupyterLab\n"
    noted.unlink()
    assert job(FAST="1", QUIET="90").returncode == 143
    assert noted.read_text() == "the notebook itself, idle for 60 s\n"
    noted.unlink()
    assert job(KILL="1").returncode == 0  # the job's script knows why
    assert not noted.exists()


@pytest.mark.parametrize(
    ("environment", "address"),
    [({}, "127.0.0.1"), ({"SLURM_JOB_ID": "7", "SLURM_SUBMIT_HOST": "127.0.0.5"}, "127.0.0.1"),
     ({"LSB_JOBID": "7", "LSB_SUB_HOST": "127.0.0.5"}, "127.0.0.1"),
     ({"PBS_JOBID": "7", "PBS_O_HOST": "nosuch.invalid"}, None)],
)  # fmt: skip
def test_it_listens_where_the_front_end_reaches_it(job, environment, address):
    clean = dict.fromkeys(
        ("SLURM_JOB_ID", "SLURM_SUBMIT_HOST", "PBS_JOBID", "PBS_O_HOST", "LSB_JOBID", "LSB_SUB_HOST"), ""
    )
    job(**{**clean, **environment})
    words = json.loads((job.folder / "seen.json").read_text())["words"]
    (given,) = (word.partition("=")[2] for word in words if word.startswith("--ServerApp.ip="))
    assert given == address if address else given != "0.0.0.0"


def test_an_image_without_jupyterlab_is_told(job):
    done = job(has_jupyter=False)
    assert done.returncode == 1
    assert "the image has no JupyterLab 4" in done.stderr
    assert "requirements_txt: jupyterlab" in done.stderr
    assert "Traceback" not in done.stderr
