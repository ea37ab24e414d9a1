import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def shellcheck():
    """A function that fails the test when shellcheck finds a fault in a script."""
    program = shutil.which("shellcheck", path=str(Path(sys.executable).parent))

    def check(text):
        # SC1091: what the building machine brings cannot be followed from here; SC2086: hpccm quotes no variable
        command = [program, "--exclude=SC1091,SC2086", "-"]
        found = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stdout

    return check
