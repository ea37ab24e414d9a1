import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from golden import assert_golden

from modak_ansible.catalogue import load_catalogue
from modak_ansible.recipes.environment import environment_script


@pytest.mark.parametrize("entry", load_catalogue().entries, ids=lambda entry: entry.name)
def test_environment(entry, tmp_path):
    text = environment_script(entry, ["pandas>=2"], "3.13")
    assert_golden(f"environments/{entry.name}.sh", text)
    path = tmp_path / "environment.sh"
    path.write_text(text)
    shellcheck = shutil.which("shellcheck", path=str(Path(sys.executable).parent))
    found = subprocess.run([shellcheck, str(path)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
