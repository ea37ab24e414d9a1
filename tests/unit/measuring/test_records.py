"""Files of records outlive crashes, and what is no record is refused with its line."""

from __future__ import annotations

import json
import lzma
import re
from math import inf, isnan, nan

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.errors import ModakError
from modak_ansible.measuring import refitting
from modak_ansible.measuring.records import RecordFile, read_records
from modak_ansible.store.project import RECORDS


@pytest.fixture
def file(tmp_path):
    return RecordFile(tmp_path / "deep" / "example.jsonl")


def test_what_is_written_comes_back(file, record):
    written = [record(round=1), record(round=2, outcome="failed", reason="no")]
    for each in written:
        file.append(each)
    assert read_records(file.path) == written
    assert file.open() == (written, "")


def test_a_training_that_diverged_is_read_again(file, record):
    lost = {"training_loss": nan, "test_loss": inf}
    diverged = record().training.model_copy(update={"first_losses": (2.3, nan)})
    epochs = tuple(epoch.model_copy(update=lost) for epoch in diverged.epochs)
    file.append(record().model_copy(update={"training": diverged.model_copy(update={"epochs": epochs})}))
    file.append(record(round=2))
    first, second = read_records(file.path)
    assert (isnan(first.training.first_losses[1]), first.training.epochs[0].test_loss, second.round) == (True, inf, 2)


def test_a_time_that_is_no_number_is_no_record(file, record):
    line = record().model_dump_json(by_alias=True)
    file.path.parent.mkdir()
    file.path.write_text(re.sub('"first_step":[^,]+', '"first_step":NaN', line) + "\n")
    with pytest.raises(ModakError, match="first_step: Input should be a finite number"):
        read_records(file.path)


def test_a_file_that_is_not_there_is_empty(file):
    assert file.open() == ([], "")
    assert file.set_aside() is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(1, 400))
def test_a_torn_last_line_is_set_aside(tmp_path_factory, record, cut):
    file = RecordFile(tmp_path_factory.mktemp("torn") / "example.jsonl")
    file.append(record(round=1))
    whole = file.path.read_bytes()
    file.path.write_bytes(whole + whole[:cut])
    known, message = file.open()
    assert [each.round for each in known] == [1]
    assert "was cut short" in message
    assert file.path.read_bytes() == whole
    assert file.path.with_name("example.jsonl.torn").read_bytes() == whole[:cut]
    file.append(record(round=2))
    assert [record.round for record in read_records(file.path)] == [1, 2]


def test_a_last_line_that_lacks_its_end_only_is_kept(file, record):
    file.append(record())
    file.path.write_bytes(file.path.read_bytes().rstrip())
    assert file.open()[1] == ""
    file.append(record(round=2))
    assert [record.round for record in read_records(file.path)] == [1, 2]


@pytest.mark.parametrize("line", ["nonsense", "{}", '{"schema_version": "modak.record/2"}', "[1]", '"text"'])
def test_a_bad_line_is_refused_with_its_place(file, record, line):
    file.append(record())
    file.path.write_text(file.path.read_text() + line + "\n")
    file.append(record())
    with pytest.raises(ModakError, match=r"example\.jsonl:2:1: not a record: ") as caught:
        read_records(file.path)
    assert "\n" not in caught.value.message
    with pytest.raises(ModakError):
        file.open()


def test_a_file_that_cannot_be_read_is_one_message(tmp_path):
    with pytest.raises(ModakError, match="cannot be read"):
        read_records(tmp_path / "none.jsonl")


def test_those_of_a_wheel_are_compressed(tmp_path, record, monkeypatch):
    written = record()
    line = written.model_dump_json(by_alias=True).encode()
    (records := tmp_path / RECORDS).mkdir()
    (records / "a.jsonl.xz").write_bytes(lzma.compress(line))
    (records / "b.jsonl").write_bytes(line)
    monkeypatch.setattr(refitting, "shipped", lambda _: tmp_path)
    files = refitting.files_of_records(None)
    assert [path.name for path in files] == ["a.jsonl.xz", "b.jsonl"]
    assert [read_records(path) for path in files] == [[written]] * 2
    files[0].write_bytes(lzma.compress(line)[:-9])
    with pytest.raises(ModakError, match=r"a\.jsonl\.xz cannot be read: it is not xz data, or it was cut short"):
        read_records(files[0])


def test_a_file_is_set_aside_under_a_name_of_its_own(file, record):
    names = set()
    for _ in range(3):
        file.append(record())
        names.add(file.set_aside().name)
    assert len(names) == 3
    assert all(name.startswith("example-until-20") for name in names)
    assert not file.path.exists()


def test_a_record_fits_its_schema(root, record):
    schema = json.loads((root / "benchmarks" / "records" / "record.schema.json").read_text())
    jsonschema.validate(json.loads(record().model_dump_json(by_alias=True)), schema)


def test_committed_records_are_records(root):
    for path in (root / "benchmarks" / "records").rglob("*.jsonl"):
        assert read_records(path), path
