"""From files to the page: what is wrong with a file is said with its line."""

from __future__ import annotations

import json
import resource

import pytest
import typer
from synthetic_records import record, rounds
from typer.testing import CliRunner

from modak_ansible.commands.bench import report as bench_report
from modak_ansible.errors import ModakError, UsageError
from modak_ansible.measuring.report import making
from modak_ansible.measuring.report.making import make_report, read_runs


@pytest.fixture(autouse=True)
def _no_workloads(monkeypatch):
    """Those that ship are another's test."""
    monkeypatch.setattr(making, "load_workloads", dict)


def written(path, records):
    path.write_text("".join(record.model_dump_json(by_alias=True) + "\n" for record in records))
    return path


def test_records_come_back_as_they_were_written(tmp_path):
    records = rounds("pytorch-1.4-pip", 100, "stock-images")
    path = written(tmp_path / "records.jsonl", records)
    assert [run.record for run in read_runs([path])] == records


def test_a_file_named_twice_is_read_once(tmp_path):
    path = written(tmp_path / "records.jsonl", [record("pytorch-1.4-pip")])
    assert len(read_runs([path, tmp_path / "." / "records.jsonl"])) == 1


def test_an_empty_file_makes_a_page_that_says_so(tmp_path):
    path = written(tmp_path / "records.jsonl", [])
    made = make_report([path], tmp_path / "deep" / "report.html")
    assert made.records == 0
    assert "Nothing was measured" in made.page.read_text()


@pytest.mark.parametrize(
    "line",
    [
        '{"schema_version": "modak.rec',
        json.dumps(record("pytorch-1.4-pip").model_dump() | {"schema_version": "modak.record/9"}),
        "[]",
        "\x00",
    ],
    ids=["cut short", "another version", "no object", "no text"],
)
def test_a_damaged_line_is_named(tmp_path, line):
    path = written(tmp_path / "records.jsonl", [record("pytorch-1.4-pip")])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ModakError) as caught:
        make_report([path], tmp_path / "report.html")
    assert str(caught.value).startswith(f"{path}:2:")
    assert not (tmp_path / "report.html").exists()


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match="no file of records"):
        make_report([tmp_path / "none.jsonl"], tmp_path / "report.html")


def test_a_page_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModakError, match="cannot be written"):
        make_report([], tmp_path / "file" / "report.html")


def test_a_page_that_cannot_be_finished_leaves_the_one_before(tmp_path):
    page = tmp_path / "report.html"
    page.write_text("before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(ModakError, match=r"report.html cannot be written: File too large"):
            make_report([], page)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert page.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_command_says_what_it_wrote(tmp_path):
    path = written(tmp_path / "records.jsonl", rounds("pytorch-1.4-pip", 100, "stock-images"))
    app = typer.Typer()
    app.command()(bench_report.command)
    page = tmp_path / "report.html"
    result = CliRunner().invoke(app, [str(path), "--output", str(page)])
    assert (result.exit_code, result.output) == (0, f"{page}: 5 records\n")
    assert "pytorch-1.4-pip" in page.read_text()


def test_titles_are_those_of_the_suites_that_ship():
    titles = making.titles_of_groups()
    assert titles["paper-cpu", "stock-images"] == "Fig. 3, stock images"
