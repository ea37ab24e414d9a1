"""modak schema: what it prints is what is read."""

from __future__ import annotations

import json

import jsonschema
import pytest
from example_request import PROGRAM, TRAINING
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.commands.plan.schema import Document, schema_of
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.requests.reader import read_form


@pytest.fixture(scope="module")
def validator():
    return jsonschema.Draft202012Validator(schema_of(Document.REQUEST))


@pytest.mark.parametrize("document", list(Document))
def test_each_is_a_schema_of_its_draft(document):
    schema = schema_of(document)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("request_", [TRAINING, PROGRAM, {"optimisation": TRAINING["job"]["optimisation"]}])
def test_valid_requests_fit(validator, request_):
    validator.validate(request_)


@pytest.mark.parametrize(
    "request_",
    [
        {}, {"jobs": {}}, {"job": {"job_options": {"node_count": 0}}}, {"job": {"job_options": {"wall_time_limit": "12:30"}}},
        {"job": {"optimisation": {"autotuning": {"tuner": "cresta"}}}}, {"job": {"target": {"job_scheduler_type": "oar"}}},
    ],
)  # fmt: skip
def test_invalid_ones_do_not(validator, request_):
    assert not validator.is_valid(request_)


OPTIONS = st.fixed_dictionaries({}, optional={
    "node_count": st.sampled_from([0, 1, 2, 1.5, [1]]),
    "wall_time_limit": st.sampled_from(["1:00:00", "1-00:00:00", "60", [1]]),
    "memory_limit": st.sampled_from(["4 GB", "4gb", "4"]),
    "email_address": st.sampled_from(["a@b.c", ["a@b.c"], 3]),
    "node_exclusive": st.sampled_from([True, 7]),
    "job_dependency": st.sampled_from(["afterok:1", ["afterok:1"]]),
    "nodes": st.just(1),
})  # fmt: skip


@given(OPTIONS)
def test_schema_and_reader_agree(tmp_path_factory, validator, options):
    path = tmp_path_factory.getbasetemp() / "agree.json"
    path.write_text(json.dumps({"job": {"job_options": options}}))
    mistakes = Mistakes()
    read_form(path, mistakes, Mistakes())
    fits = validator.is_valid(json.loads(path.read_text()))
    # texts that only the reader can judge pass the schema
    assert fits or mistakes
    assert not fits or not mistakes
