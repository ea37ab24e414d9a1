"""Seals: a stamp that tells whether an image was touched, and its digest that tells whether it changed."""

from __future__ import annotations

import os
import subprocess

import pytest

from modak_ansible.target.core import seal as seal_module
from modak_ansible.target.core.files import sha256_of
from modak_ansible.target.core.seal import is_intact, seal_path, sealed_digest, stamp_of, write_seal


@pytest.fixture
def sealed(tmp_path):
    image = tmp_path / "abc.sif"
    image.write_text("an image")
    path = seal_path(tmp_path, "abc")
    write_seal(path, image, sha256_of(image))
    return image, path


@pytest.mark.component
def test_the_stamp_is_what_stat_prints(sealed):
    image, _ = sealed
    printed = subprocess.run(["stat", "-L", "-c", "%s %i %.9Y %.9Z", image], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == stamp_of(image)


def test_an_untouched_image_is_not_read(sealed, monkeypatch):
    monkeypatch.setattr(seal_module, "sha256_of", lambda path: 1 / 0)
    assert is_intact(*sealed)


def test_a_touched_image_is_read_once(sealed, monkeypatch):
    image, path = sealed
    os.utime(image, (1, 1))
    assert is_intact(image, path)
    monkeypatch.setattr(seal_module, "sha256_of", lambda path: 1 / 0)
    assert is_intact(image, path)


def test_a_changed_image_is_told_from_a_copied_one(sealed):
    image, path = sealed
    times = (image.stat().st_atime, image.stat().st_mtime)
    copy = image.with_name("copy")
    copy.write_text("an image")
    copy.replace(image)
    assert is_intact(image, path)
    copy.write_text("an imago")  # of the same size, and with the same times
    os.utime(copy, times)
    copy.replace(image)
    assert not is_intact(image, path)
    assert not is_intact(image, path, sha256_of(image)), "what the seal says counts"


def test_without_a_seal_the_known_digest_serves(sealed):
    image, path = sealed
    path.unlink()
    assert not is_intact(image, path)
    assert is_intact(image, path, sha256_of(image))
    assert sealed_digest(path) == sha256_of(image)


def test_an_image_that_is_gone(sealed):
    image, path = sealed
    image.unlink()
    assert not is_intact(image, path)
