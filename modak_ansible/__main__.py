"""Where the modak command begins: Ctrl-C is heard while the rest is still being read, too."""

import atexit
import gc
import os
import sys
from types import ModuleType


def run() -> None:
    gc.disable()  # what is imported stays: looking for what could be freed of it takes longer
    _without_plugins()
    try:
        from modak_ansible.commands.main import run as run_all  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    gc.freeze()
    gc.enable()
    try:
        run_all()
    except SystemExit as end:
        _leave(end.code)
        raise


def _without_plugins() -> None:
    """Lets pydantic look for no plugins.

    What looks for them imports importlib.metadata, and with that email and sockets, where it is told to find none, too:
    a module that knows of none takes its place.
    """
    loader = ModuleType("pydantic.plugin._loader")
    vars(loader)["get_plugins"] = tuple
    sys.modules.setdefault(loader.__name__, loader)


def _leave(code: object) -> None:
    """Ends the process without taking apart what it holds, which takes longer than reading a blueprint does.

    What is to be done at the end is done. Where threads still run, or what was written cannot be written out, or the
    code is no number, or an output was closed before, nothing happens here, and Python ends in its own way.
    """
    threading = sys.modules.get("threading")
    is_closed = sys.stdout is None or sys.stderr is None
    if not isinstance(code, int) or (threading and threading.active_count() > 1) or is_closed:
        return
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


if __name__ == "__main__":
    run()
