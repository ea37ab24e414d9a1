"""What is shown of a build that goes on is what it does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.target.core.background import doing

APPTAINER = """\
INFO:    Adding testscript
INFO:    Creating SIF file...
INFO:    Non-gzip squashfs compression might not work with some installations
INFO:    gocryptfs not found, will not be able to use gocryptfs
"""


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (APPTAINER, "Creating SIF file..."),
        ("I: Retrieving bash 5.2.15-2+b13\nW: Failure while configuring base packages.\n", "Retrieving bash 5.2.15-2+b13"),
        ("Collecting torch==2.13.0\nWARNING: Location 'file:///mnt' is ignored: it is neither a file nor a folder.\n", "Collecting torch==2.13.0"),
        ("  Downloading torch.whl (190.1 MB)\n     \u2501\u2501\u2501\u2501 876.3/876.3 kB 157.0 MB/s eta 0:00:00", "Downloading torch.whl (190.1 MB)"),
        ("+ g++ -O3 -o kernels.so kernels.cpp\nkernels.cpp:12:5: warning: unused variable 'x'\n   12 |   int x;\n      |       ^\n", "g++ -O3 -o kernels.so kernels.cpp"),
        ("Setting up libc6 (2.36)\n+ cd /\n+ read -r mount_point\n+ rm -rf /x\n", "Setting up libc6 (2.36)"),
        ("DEPRECATION: a.whl uses a legacy name\nWARNING: x\n", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_the_last_step_is_shown_and_no_warning(log, expected):
    assert doing(log.splitlines()) == expected


@given(st.lists(st.text(max_size=60)))
def test_any_log(lines):
    shown = doing(lines)
    assert not shown or any(shown in line for line in lines)
    assert doing([*lines, "WARNING: squashfs", "INFO:    Non-gzip squashfs compression might not work"]) == shown
