"""What the first host of a target sees of the others, through an ssh that runs here what it is given."""

from __future__ import annotations

import os
import shutil

import pytest

from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.survey.hosts import host_facts

SSH = """#!/bin/sh
if [ "$1" = -G ]; then printf 'host %s\\nuser alice\\nhostname 10.0.0.2\\nport 2222\\n' "$2"; exit; fi
for last; do :; done
case $* in
    *gone*) echo "ssh: connect to host 10.0.0.2 port 2222: Connection refused" >&2; exit 255 ;;
esac
echo "rsync here? A greeting of this site"
PATH=BIN exec sh -c "$last"
"""

pytestmark = pytest.mark.component


@pytest.fixture
def there(tmp_path, monkeypatch):
    """The folder of commands that hosts have."""
    bin_, tools = tmp_path / "bin", tmp_path / "tools"
    for folder in (bin_, tools):
        folder.mkdir()
    for name in ("sh", "date", "uname", "dirname", "df", "awk"):
        (bin_ / name).symlink_to(shutil.which(name))
    (tools / "ssh").write_text(SSH.replace("BIN", str(bin_)))
    (tools / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return bin_


def test_a_host_that_has_little_and_one_that_is_not_entered(there, tmp_path):
    two, gone = host_facts(["two", "gone"], Workspace(str(tmp_path / "home/alice/modak")), "/opt/bin/apptainer")
    assert (two["host"], two["place"], two["problem"]) == ("two", "alice@10.0.0.2:2222", "")
    assert (two["rsync"], two["runtime"], two["python"], two["writable"]) == (False, False, "", True)
    assert two["machine"] == os.uname().machine
    assert abs(two["ahead"]) < 30
    assert two["free_bytes"] > 0
    assert gone["problem"] == "ssh: connect to host 10.0.0.2 port 2222: Connection refused"
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "tools"}, "nothing stays"


def test_a_host_that_has_all(there, tmp_path):
    for name in ("rsync", "apptainer"):
        (there / name).write_text("#!/bin/sh\n")
        (there / name).chmod(0o755)
    (there / "python3").write_text("#!/bin/sh\necho python=3.9.2\n")
    (there / "python3").chmod(0o755)
    (two,) = host_facts(["two"], Workspace(str(tmp_path)), str(there / "apptainer"))
    assert (two["rsync"], two["runtime"], two["python"], two["shared"]) == (True, True, "3.9.2", True)
    (two,) = host_facts(["two"], Workspace(str(there / "sh" / "w")), None)
    assert (two["runtime"], two["writable"], two["shared"]) == (False, False, False)
