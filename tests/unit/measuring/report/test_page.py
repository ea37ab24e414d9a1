"""The page and its figures: whole, escaped, and honest with whatever part of the records there is."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_records import measured, record, rounds, whole_table

from modak_ansible.measuring.report.charts import Bar, Chart, Table, number
from modak_ansible.measuring.report.drawing import drawing, drawn
from modak_ansible.measuring.report.making import render
from modak_ansible.measuring.report.paper import read_paper
from modak_ansible.measuring.report.runs import Run, comparisons
from modak_ansible.measuring.report.sections import sections
from modak_ansible.store.project import shipped

WORK = {"mnist_cnn": 9.16 / 128, "resnet50": 194 / 8}
ALL = whole_table()
VOID = {"meta", "br"}


class Checker(HTMLParser):
    """Every element that is opened is closed, in the right order, and nothing is fetched."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []

    def handle_starttag(self, tag, attrs):
        assert tag not in {"script", "link", "img", "iframe"}
        for name, value in attrs:
            assert name not in {"src", "onload", "onerror"}
            assert name not in {"href", "xlink:href"} or value.startswith("#")
            self.names += [value] if name == "id" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parts_of(records):
    runs = [Run(record, "a file") for record in records]
    return runs, sections(runs, comparisons(runs), WORK)


def page_of(records, draw=drawing):
    runs, parts = parts_of(records)
    text = render(runs, parts, {figure.name: draw(figure) for part in parts for figure in part.figures})
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    assert len(set(checker.names)) == len(checker.names)
    assert not re.search(r"url\((?!#)", text) and "@import" not in text
    return text


@pytest.fixture(scope="module")
def page():
    return page_of(ALL)


def test_a_script_that_does_not_say_when_it_had_its_framework_has_no_chart_of_that():
    seconds = {"import": 0.0, "load_data": 0.2, "to_first_step": 2.4, "first_step": 0.4, "compile": 0.0, "total": 20.0}
    records = [
        each
        for settings in ({}, {"container": "native"})
        for each in rounds("pytorch-2.13-cpu", 100, "native", settings=settings, trained={"seconds": seconds})
    ]
    shown = page_of(records)
    assert "process start to first step" in shown
    assert "process start to framework imported" not in shown


def test_every_part_is_there(page):
    for name in (
        "stock-images",
        "own-builds",
        "compilers",
        "today",
        "resnet50",
        "native",
        "storage",
        "network",
        "peaks",
    ):
        section = re.search(rf'<section id="{name}">.*?</section>', page, re.DOTALL).group()
        assert "<figure" in section and "Nothing was measured" not in section
    assert "Roofline of" in page


def test_every_bar_has_its_interval_and_its_count(page):
    heads = re.findall(r">([\d.,]+ [^<>]+ \([^<>]*n = \d+\))</text>", page)
    assert len(heads) > 30
    assert all(re.search(r"\((?:[\d.,]+ to [\d.,]+|no interval), n = \d+\)$", head) for head in heads)


def test_drawings_are_well_formed(page):
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == page.count("<figure") > 10
    for svg in drawings:
        ElementTree.fromstring(svg)


def test_drawings_take_the_page_s_colours(page):
    """A colour of a file would not be seen in the dark."""
    for each in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        assert not re.findall(r"(?:fill|stroke): #(?!1f77b4|ff7f0e)\w+", each)
    names = set(re.findall(r"var\(--(\w+)\)", page))
    assert all(f"--{name}:" in page for name in names)


CHART = Chart(
    "a chart", "A title", "s",
    (Bar("first", 2.0, 1.0, 3.0, 5, is_baseline=True), Bar("$x^2$ & <b>\x1b", 1.0, None, None, 1, paper=9.0, newer=True)),
    "least to most", Table(("a",), (("b",),)), lines=(("sgemm", 12.0),),
)  # fmt: skip


def test_no_bar_mark_or_line_lies_beyond_the_axis():
    (axes,) = drawn(CHART).axes
    assert axes.get_xlim()[0] == 0
    assert axes.get_xlim()[1] > 12


def test_the_key_names_what_is_there_and_nothing_else():
    (key,) = drawn(CHART).legends
    assert sorted(text.get_text() for text in key.get_texts()) == [
        "measured peak, sgemm: 12.0 s", "what others are held against", "where it would put this newer software",
    ]  # fmt: skip


def test_names_in_a_drawing_stay_as_they_are():
    shown = ElementTree.fromstring(drawing(CHART)).itertext()
    assert "$x^2$ & <b> " in [each.removesuffix("\n") for each in shown]


def test_one_figure_is_one_file_whenever_it_is_drawn(monkeypatch):
    first = drawing(CHART)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    assert drawing(CHART) == first


def test_a_table_stands_under_every_figure(page):
    figures = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    assert all("<table>" in figure for figure in figures)


def test_top_says_what_where_and_how_many(page):
    top = page[: page.index("<nav")]
    for text in (
        "<b>109</b>runs measured",
        "Synthetic Processor 9000 (zen5, 2 cores)",
        "1 node exclusively, 2 threads",
        "2026-11-21 to 2026-11-25",
    ):
        assert text in top
    assert 3 <= top.count("<li class=") <= 7


def test_a_finding_is_a_sentence_with_its_verdict_and_the_papers_number(page):
    text = re.sub(r"<[^>]+>", "", page)
    assert (
        "✓ holds XLA slows TensorFlow down on a CPU: tensorflow-2.1-pip compiler=xla ran at 0.70 (0.69 to 0.76) times the "
        "speed of tensorflow-2.1-pip; the paper: about 0.7."
    ) in text


def test_verdicts_of_several_builds_are_not_hidden_behind_the_first():
    text = re.sub(
        r"<[^>]+>",
        "",
        page_of(
            [
                *rounds("tensorflow-1.14-pip", 1000, "stock-images"),
                *rounds("pytorch-1.4-pip", 1000, "stock-images", 2),
                *rounds("mxnet-1.6-pip", 300, "stock-images", 3),
            ]
        ),
    )
    assert "✗ does not hold PyTorch 1.4 and MXNet 1.6 are about as fast" in text


def test_hostile_names_stay_text():
    evil = '<script>alert("x")</script>'
    text = page_of(
        [
            *rounds(evil, 100, evil, settings={evil: evil}, workload="resnet50"),
            record(evil, evil, outcome="failed", reason=evil),
            measured(evil, evil, evil, [1.0], **{"storage": evil}),
        ]
    )
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_without_records_every_part_says_how_to_measure_it():
    text = page_of([])
    assert text.count("Nothing was measured for this part") == 11
    assert "modak bench run benchmarks/suites/paper-cpu.yaml" in text
    assert "<figure" not in text


@settings(max_examples=30)
@given(st.lists(st.sampled_from(ALL), max_size=6), st.sampled_from(["measured", "disturbed", "failed", "refused"]))
def test_any_part_of_the_records_makes_a_page(some, outcome):
    page_of([*some, record("mxnet-1.6-pip", outcome=outcome, reason="so")], lambda _: "<svg></svg>")


@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(ALL), min_size=1, max_size=3))
def test_figures_of_few_records_are_drawn(some):
    for part in parts_of(some)[1]:
        for figure in part.figures:
            assert ElementTree.fromstring(drawing(figure).encode()).tag.endswith("svg")


def test_what_stands_apart_on_the_page_is_what_the_papers_file_says(tmp_path, monkeypatch):
    text, file = (shipped("benchmarks") / "paper.yaml").read_text(), tmp_path / "paper.yaml"
    file.write_text(text.replace("  resnet50:\n", "  vgg16:\n").replace("title: ResNet50", "title: VGG 16"))
    monkeypatch.setattr("modak_ansible.measuring.report.sections.paper", lambda: read_paper(file))
    titles = {part.name: part.title for part in sections([], [], {})}
    assert titles["vgg16"] == "VGG 16"
    assert "resnet50" not in titles


def test_figures_of_one_name_are_numbered():
    """One group in two suites."""
    records = [*rounds("pytorch-1.4-pip", 1, "again"), *rounds("pytorch-1.4-pip", 1, "again", suite="another")]
    _, parts = parts_of(records)
    names = [figure.name for part in parts for figure in part.figures]
    assert names == ["again-mnist-cnn-synthetic-cluster", "again-mnist-cnn-synthetic-cluster-2"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1234.5, "1,234"), (12.34, "12.3"), (0.5, "0.500"), (0.00002, "0.0000200"), (1e-12, "1.00e-12")],
)
def test_numbers_are_written_as_people_read_them(value, text):
    assert number(value) == text
