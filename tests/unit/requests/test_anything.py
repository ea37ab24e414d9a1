"""Whatever stands anywhere in a request: mistakes with places, or a plan; never anything else."""

from __future__ import annotations

import copy
import json
import string

import pytest
from example_documents import DOCUMENTS
from example_request import PROGRAM, TRAINING, RequestFolder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.model.request import Request
from modak_ansible.reading.blueprint.forms.forms import choices_of, fields_of, form_of
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_files import parse_yaml
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.reading.requests.form.form import RequestForm
from modak_ansible.reading.requests.form.json_tree import parse_json
from modak_ansible.reading.requests.reader import read_form, read_request

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 100), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20), st.text(string.printable, max_size=30),
    st.sampled_from(["", " ", "0", "1", "true", "1:00:00", "4 GB", "none", "slurm", "train/train.py", "{dataset}", "$X", "../x",
                     "a\nb", "#SBATCH", "afterok:1", "a@b.c", ">=2,<1", "x" * 300, "None", "nan", "1e999", "\ud83d\ude00"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def all_paths(form=RequestForm, path=()):
    """The paths of every field that there is, with the words that it may hold."""
    for name, annotation in fields_of(form).items():
        yield (*path, name), choices_of(annotation)
        inner = form_of(annotation)
        if inner:
            yield from all_paths(inner, (*path, name))


PATHS = list(all_paths())
CHANGES = st.lists(
    st.tuples(st.sampled_from(PATHS), st.one_of(VALUES, st.just("a valid word"), st.just("taken away"))),
    min_size=1, max_size=3,
)  # fmt: skip


def changed(content, changes, chooser):
    content = copy.deepcopy(content)
    for (path, words), value in changes:
        owner = content
        for name in path[:-1]:
            if not isinstance(owner.get(name), dict):
                owner[name] = {}
            owner = owner[name]
        if value == "taken away":
            owner.pop(path[-1], None)
        else:
            owner[path[-1]] = chooser(words) if value == "a valid word" and words else value
    return content


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return RequestFolder(tmp_path_factory.mktemp("any") / "request", TRAINING)


@settings(suppress_health_check=list(HealthCheck))
@given(base=st.sampled_from([TRAINING, PROGRAM]), changes=CHANGES, data=st.data())
def test_any_value_at_any_place(folder, base, changes, data):
    content = changed(base, changes, lambda words: data.draw(st.sampled_from(words)))
    folder.file.write_text(json.dumps(content), encoding="utf-8")
    mistakes = Mistakes()
    blueprint = read_request(folder.file, Inputs(), mistakes)
    if mistakes:
        assert not blueprint.requests
        assert all(mistake.location.path and mistake.message for mistake in mistakes)
        for mistake in mistakes:
            str(mistake).encode()
        return
    (request,) = blueprint.requests
    assert Request.model_validate_json(request.model_dump_json()) == request


@settings(suppress_health_check=list(HealthCheck))
@given(base=st.sampled_from([TRAINING, PROGRAM]), changes=CHANGES, data=st.data())
def test_what_is_read_is_planned_or_refused_with_a_place(folder, base, changes, data):
    from modak_ansible.planning.service import check_blueprint

    content = changed(base, changes, lambda words: data.draw(st.sampled_from(words)))
    folder.file.write_text(json.dumps(content), encoding="utf-8")
    mistakes = Mistakes()
    plans = check_blueprint(folder.file, Inputs(), mistakes)
    assert bool(plans) != bool(mistakes)


NAMES = st.sampled_from(["hlrs-testbed", "EGI", "cirrus", "daint", "testbed", "local", "cluster", "nowhere"])


@settings(suppress_health_check=list(HealthCheck))
@given(
    base=st.sampled_from(sorted(DOCUMENTS)),
    changes=CHANGES,
    name=st.none() | NAMES,
    strict=st.booleans(),
    data=st.data(),
)
def test_documents_of_then_with_odd_values_are_planned_or_told(folder, base, changes, name, strict, data):
    from modak_ansible.commands.plan.table import plan_table
    from modak_ansible.planning.service import check_blueprint

    content = changed(DOCUMENTS[base], changes, lambda words: data.draw(st.sampled_from(words)))
    if name and isinstance(content.get("job"), dict):
        content["job"]["target"] = {"name": name}
    folder.file.write_text(json.dumps(content), encoding="utf-8")
    mistakes = Mistakes()
    plans = check_blueprint(folder.file, Inputs(strict=strict), mistakes)
    assert bool(plans) != bool(mistakes)
    for plan in plans:
        assert plan_table(plan, 80)
        assert not (strict and plan.notes)


@given(VALUES)
def test_json_is_read_as_by_the_standard_library(value):
    mistakes = Mistakes()
    text = json.dumps(value, indent=1)
    tree = parse_json(text, "x.json", mistakes)
    if not mistakes:
        assert tree.plain() == json.loads(text)


@given(st.text(st.sampled_from('{}[]":,\\ \t\n0123456789.eE+-truefalsn\u00e9\ud83d'), max_size=60))
def test_what_is_not_json_is_a_mistake_with_a_place(text):
    mistakes = Mistakes()
    tree = parse_json(text, "x.json", mistakes)
    assert tree is not None or (len(mistakes) == 1 and next(iter(mistakes)).location.line >= 1)


@given(st.binary(max_size=80))
def test_any_bytes(tmp_path_factory, content):
    for name in ("x.json", "x.yaml"):
        path = tmp_path_factory.getbasetemp() / name
        path.write_bytes(content)
        mistakes = Mistakes()
        assert read_form(path, mistakes, Mistakes()) is not None or mistakes


def test_places_of_yaml_and_json_agree(folder):
    text = json.dumps(TRAINING, indent=2)
    one, other = parse_json(text, "x", Mistakes()), parse_yaml(text, "x", Mistakes())
    assert [(each.location, each.plain()) for each in one.walk()] == [
        (each.location, each.plain()) for each in other.walk()
    ]


@pytest.mark.parametrize("path", [path for path, words in PATHS if words], ids="/".join)
def test_an_unknown_word_of_a_field_that_has_few_is_a_mistake_with_the_known_ones(folder, path):
    from modak_ansible.planning.service import check_blueprint

    words = dict(PATHS)[path]
    base = PROGRAM if "app_type-hpc" in path else TRAINING
    folder.file.write_text(json.dumps(changed(base, [((path, words), "wibble")], None)), encoding="utf-8")
    mistakes = Mistakes()
    assert not check_blueprint(folder.file, Inputs(), mistakes)
    (mistake,) = [mistake for mistake in mistakes if mistake.rule == "not-allowed-value"]
    assert mistake.location.line == 1
    assert all(word in mistake.hint for word in words)
