"""Where the modak command begins: Ctrl-C is heard while the rest is still being read, too."""

import gc
import sys


def run() -> None:
    """Runs the command line."""
    gc.disable()  # what is imported stays: looking for what could be freed of it takes longer
    try:
        from modak_ansible.commands.main import run as run_all  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    gc.freeze()
    gc.enable()
    run_all()


if __name__ == "__main__":
    run()
