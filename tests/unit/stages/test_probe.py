"""What is looked at before anything is made on a target."""

from __future__ import annotations

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.stages.probe import probe_target


def test_a_machine_without_rsync_is_told_before_anything_is_built(make_stage, monkeypatch, tmp_path):
    asked = []
    stage, _ = make_stage(lambda *words, **_options: asked.append(words))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ModakError, match="rsync is not installed on this machine"):
        probe_target(stage)
    assert asked == []
