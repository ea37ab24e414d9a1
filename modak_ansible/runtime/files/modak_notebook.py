"""JupyterLab in a job: listens where the front end reaches it, says how in a file of its user's alone, ends when idle.

    python modak_notebook.py SECONDS

The token stands in ``jupyter/connection.json`` of the deployment's folder, and in no command line and no environment.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

# Of the training's process alone: what a plan chose for a script does not act in what somebody tries by hand.
_OF_SCRIPTS = ("MODAK_CHOICES", "MODAK_APPLIED")
# Jupyter's own: of the user's shell, which a job may have got, none may open this server to others.
_OF_JUPYTER = ("JUPYTER_TOKEN", "JUPYTER_CONFIG_PATH", "JUPYTER_PATH", "JUPYTER_NO_CONFIG", "JUPYTER_PREFER_ENV_PATH")
_HINT = "the image has no JupyterLab 4: %s\nadd it to requirements_txt: jupyterlab>=4,<5"
_ENDED = 143
# What schedulers tell their jobs: on which host they were submitted, and that they are jobs.
_SUBMITTED = ("SLURM_SUBMIT_HOST", "PBS_O_HOST", "LSB_SUB_HOST")
_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")


def _address():
    """An address of this node by which the host reaches it that the job was submitted on; without one this host's."""
    submitted = next((os.environ[name] for name in _SUBMITTED if os.environ.get(name)), None)
    if not any(os.environ.get(name) for name in _JOBS):
        return "127.0.0.1"
    for host in filter(None, (submitted, socket.gethostname())):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((host, 9))  # sends nothing
                return probe.getsockname()[0]
        except OSError:
            continue
    return "127.0.0.1"


def _folder(deployment):
    """A new folder of this user's alone, for all that Jupyter keeps."""
    folder = deployment / "jupyter"
    shutil.rmtree(str(folder), ignore_errors=True)
    folder.mkdir(mode=0o700)
    for name in ("config", "data", "runtime"):
        (folder / name).mkdir(mode=0o700)
        os.environ["JUPYTER_%s_DIR" % name.upper()] = str(folder / name)
    os.environ["IPYTHONDIR"] = str(folder / "ipython")
    os.environ["JUPYTERLAB_WORKSPACES_DIR"] = str(folder / "config" / "workspaces")
    os.environ["JUPYTERLAB_SETTINGS_DIR"] = settings = str(folder / "config" / "settings")
    # nodes reach no news, and the image is what it is
    asks = Path(settings) / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    asks.parent.mkdir(parents=True)
    asks.write_text('{"fetchNews": "false", "checkForUpdates": false}', encoding="utf-8")
    for name in (*_OF_SCRIPTS, *_OF_JUPYTER):
        os.environ.pop(name, None)
    return folder


def _only_work_counts():
    """An open page asks again and again what there is, and keeps how it looks (``/lab/api``): that is no work."""
    from jupyter_server.base.handlers import APIHandler

    update = APIHandler.update_api_activity

    def update_api_activity(handler):
        if handler.request.method != "GET" and handler.request.path.startswith("/api/"):
            update(handler)

    APIHandler.update_api_activity = update_api_activity


def _write(path, value):
    """Writes a file that is whole, and its owner's alone, from the first moment on."""
    part = path.with_name(path.name + ".part")
    with open(os.open(str(part), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(value, file)
    part.replace(path)


def _served(token, idle):
    """JupyterLab's server, which listens and has not begun.

    These words are handed over in this process, and stand in no process list.
    """
    from jupyterlab.labapp import LabApp
    from tornado.ioloop import PeriodicCallback

    _only_work_counts()
    often = max(2, min(60, idle // 10))
    words = {
        "ServerApp.ip": _address(),
        "ServerApp.port": 20000 + secrets.randbelow(10000),
        "ServerApp.port_retries": 200,
        "ServerApp.open_browser": False,
        "ServerApp.allow_root": True,
        "ServerApp.allow_remote_access": True,
        "ServerApp.root_dir": os.getcwd(),
        "ServerApp.shutdown_no_activity_timeout": idle,
        "ServerApp.quit_button": True,
        "IdentityProvider.token": token,
        "MappingKernelManager.cull_idle_timeout": idle,
        "MappingKernelManager.cull_interval": often,
        "MappingKernelManager.cull_connected": True,
        "TerminalManager.cull_inactive_timeout": idle,
        "TerminalManager.cull_interval": often,
    }
    server = LabApp.initialize_server(argv=["--%s=%s" % pair for pair in words.items()])
    PeriodicCallback(server.shutdown_no_activity, 1000 * often).start()
    return server


def _say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main():
    idle = int(sys.argv[1])
    deployment = Path.cwd().parent
    folder = _folder(deployment)
    token = secrets.token_urlsafe(32)
    try:
        server = _served(token, idle)
    except ImportError as error:
        sys.exit(_HINT % error)
    ended = []
    by_jupyter = signal.getsignal(signal.SIGTERM)

    def end(number, frame):
        ended.append(number)
        by_jupyter(number, frame)

    signal.signal(signal.SIGTERM, end)
    connection = folder / "connection.json"
    _write(connection, {"address": server.ip, "port": server.port, "token": token})
    _say("JupyterLab listens on port %d of %s; it ends when idle for %d s" % (server.port, server.ip, idle))
    began = time.time()
    try:
        server.start()
    finally:
        shutil.rmtree(str(folder), ignore_errors=True)
    if not ended:
        quiet = time.time() - max(began, server.web_app.last_activity().timestamp())
        why = "the notebook itself, idle for %d s" % idle if quiet > idle else "its user, from JupyterLab"
        (deployment / "state" / "cancelled").write_text(why + "\n", encoding="utf-8")
        _say("ended by " + why)
        sys.exit(_ENDED)  # one that is over can be gone back to: it is no training that is complete


if __name__ == "__main__":
    main()
