"""What is read without pydantic has the shape of what is written with it."""

from __future__ import annotations

import dataclasses

import pytest

from modak_ansible.model.application import Application, Predecessor, SourceFile
from modak_ansible.model.dataset import Contents, DataFile, DataSource
from modak_ansible.model.job_options import JobOptions
from modak_ansible.model.measured.prediction import Interval, Prediction
from modak_ansible.model.measured.work import Work
from modak_ansible.model.plan import (
    Candidate,
    Choice,
    Layer,
    Plan,
    PlannedCost,
    PlannedDataset,
    PlannedImage,
    PlannedJob,
)
from modak_ansible.model.target import Processor, Target
from modak_ansible.model.tuning import PlannedTuning, TuningCandidate
from modak_ansible.store.record import JobNote, RecordData
from modak_ansible.store.shapes import fitted
from modak_ansible.target.core import plan as shapes
from modak_ansible.target.jobs.situation import Situation

MODELS = (
    SourceFile, Work, Application, Target, Layer, PlannedImage, PlannedDataset, PlannedJob, Interval, Prediction,
    Candidate, Choice, Plan, Processor, DataFile, DataSource, JobOptions, TuningCandidate, PlannedTuning, Predecessor,
    Contents, PlannedCost,
)  # fmt: skip


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_of_a_plan_nothing_is_read_that_it_lacks(model):
    assert set(getattr(shapes, model.__name__).__annotations__) <= set(model.model_fields)


def test_every_shape_of_a_plan_has_its_model():
    declared = {name for name, value in vars(shapes).items() if getattr(value, "__module__", "") == shapes.__name__}
    assert declared == {model.__name__ for model in MODELS}


def test_what_is_noted_of_a_job_is_what_the_target_says():
    assert set(JobNote.__annotations__) == {field.name for field in dataclasses.fields(Situation)}


@pytest.mark.parametrize(
    ("value", "found", "lost"),
    [
        (
            {"data": "x", "job": {"state": "X", "error_tail": [3]}},
            {"data": "x", "job": {"state": "X"}},
            ["job.error_tail"],
        ),
        ({"data": "x", "left": {"count": "1", "size": 1, "names": []}}, {"data": "x"}, ["left"]),
        ({"data": "x", "stages": {"job": {"seconds": "x"}}, "forecasts": [{}]}, {"data": "x"}, ["stages", "forecasts"]),
        ({"missing_outputs": [1, "a"]}, {"missing_outputs": ["a"]}, ["missing_outputs"]),
    ],
)
def test_what_does_not_fit_is_named_once(value, found, lost):
    named = []
    assert fitted(value, RecordData, named) == found
    assert named == lost
