"""Where the files of a training out of core lie."""

from __future__ import annotations

import io
import sys

import pytest

from modak_ansible.runtime import FILES

sys.path.insert(0, str(FILES))

from modak_runtime.pytorch import out_of_core

sys.path.remove(str(FILES))

MOUNTS = "/dev/sda1 / ext4 rw 0 0\ntmpfs /scratch/jürgen\\040k tmpfs rw 0 0\n/dev/sdb /data xfs rw 0 0\nbroken"


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("/scratch/jürgen k/job", "tmpfs"), ("/scratch/jürgen", "ext4"), ("/data", "xfs"), ("/database", "ext4")],
)
def test_the_file_system_of_a_folder(monkeypatch, folder, kind):
    monkeypatch.setattr(out_of_core, "open", lambda _: io.StringIO(MOUNTS), raising=False)
    assert out_of_core._file_system(folder) == kind
