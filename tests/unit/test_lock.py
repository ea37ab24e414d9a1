"""What requirements/lock.py makes of files that pip has named or downloaded."""

from __future__ import annotations

import hashlib
import importlib.util

import pytest


@pytest.fixture(scope="module")
def lock(root):
    spec = importlib.util.spec_from_file_location("lock", root / "requirements" / "lock.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("torch-1.4.0-cp27-cp27mu-manylinux1_x86_64.whl", ("torch", "1.4.0")),
        ("torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl", ("torch", "2.13.0+cpu")),
        ("Keras_Applications-1.0.8.tar.gz", ("keras-applications", "1.0.8")),
    ],
)
def test_a_file_is_known_by_its_name_and_its_content(lock, tmp_path, name, release):
    (tmp_path / name).write_bytes(b"content")
    assert lock.file_at(tmp_path / name) == (*release, hashlib.sha256(b"content").hexdigest())


def test_what_is_the_same_for_several_pythons_stands_there_once(lock):
    pure, old, new = (
        lock.File(name, "1.0", digit * 64) for name, digit in (("pure", "a"), ("built", "b"), ("built", "c"))
    )
    only = lock.File("only", "2.0", "d" * 64)
    text = lock.text_of_lock({"3.13": [pure, new], "3.9": [old, pure, only]}, "requirements/lock.py")
    assert text.splitlines() == [
        "# written by requirements/lock.py for Python 3.9 3.13",
        f"built==1.0 --hash=sha256:{'b' * 64} --hash=sha256:{'c' * 64}",
        f'only==2.0 ; python_version == "3.9" --hash=sha256:{"d" * 64}',
        f"pure==1.0 --hash=sha256:{'a' * 64}",
    ]


def test_a_lock_that_is_renewed_stays_at_its_releases(lock):
    assert "torch==2.13.0+cpu" in lock.pins_of("pytorch-2.13-cpu")
    assert lock.pins_of("none") == []
