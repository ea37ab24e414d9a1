"""The model that ships is the one of the records that ship."""

from __future__ import annotations

import json

import pytest

from modak_ansible.measuring.refitting import files_of_records, fit_files
from modak_ansible.performance.model import SHIPPED
from modak_ansible.performance.stored import read_stored, stored_text


def test_fitting_again_gives_the_shipped_model():
    fitted = fit_files(files_of_records(None))
    shipped = read_stored(SHIPPED)
    again = "modak model fit --shipped --output modak_ansible/performance/model.json"
    assert fitted.records_digest == shipped.records_digest, f"the records have changed: {again}"
    assert fitted.machines == shipped.machines
    for name, part in fitted.parts.items():
        assert part.counts == shipped.parts[name].counts, again
        assert part.mean == pytest.approx(shipped.parts[name].mean, rel=1e-2, abs=1e-3), again


def test_the_file_is_json_and_read_as_it_was_written(tmp_path):
    stored = read_stored(SHIPPED)
    text = stored_text(stored)
    assert json.loads(text) == stored.model_dump(mode="json")
