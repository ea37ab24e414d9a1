"""The model that ships is the one of the records that ship."""

from __future__ import annotations

import json
import math

import pytest
import scipy.optimize

from modak_ansible.measuring.refitting import files_of_records, fit_files
from modak_ansible.performance.features import FEATURES_OF
from modak_ansible.performance.fit.fitting import _FIXED
from modak_ansible.performance.model import SHIPPED
from modak_ansible.performance.stored import read_stored, stored_text

minimize = scipy.optimize.minimize


def begins_with(parts):
    """Has each part's search for the most probable deviations begin with a known part's, in place of the usual ones."""
    known = iter(parts)

    def search(loss, usual, **options):
        part = next(known)
        groups = sorted({*part.groups, *part.passing} - _FIXED)
        deviations = {**part.spread, **part.passing}
        noises = [deviation for framework, deviation in sorted(part.noise.items()) if framework]
        begin = [math.log(each) for each in (*(deviations[group] for group in groups), *noises)]
        assert len(begin) == len(usual)
        return minimize(loss, begin, **options)

    return search


@pytest.mark.parametrize("begin", ["shipped", pytest.param("usual", marks=pytest.mark.thorough)])
def test_fitting_again_gives_the_shipped_model(begin, monkeypatch):
    """A search that begins with the shipped deviations leaves them where they are not the most probable; it takes a
    tenth of the steps that it takes from the usual ones."""
    shipped = read_stored(SHIPPED)
    if begin == "shipped":
        monkeypatch.setattr("scipy.optimize.minimize", begins_with(shipped.parts[name] for name in FEATURES_OF))
    fitted = fit_files(files_of_records(None))
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
