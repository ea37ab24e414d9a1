"""The page and its figures: whole, escaped, and honest with whatever part of the records there is."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_records import measured, record, rounds, whole_table

from modak_ansible.measuring.report.charts import number, tick_text
from modak_ansible.measuring.report.page import render
from modak_ansible.measuring.report.png import write_figures
from modak_ansible.measuring.report.runs import Run, comparisons
from modak_ansible.measuring.report.sections import charts, sections

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
            assert name != "href" or value.startswith("#")
            self.names += [value] if name == "id" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parts_of(records):
    runs = [Run(each, "a file") for each in records]
    return runs, sections(runs, comparisons(runs), WORK)


def page_of(records):
    text = render(*parts_of(records))
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    assert len(set(checker.names)) == len(checker.names)
    assert "url(" not in text and "@import" not in text
    return text


@pytest.fixture(scope="module")
def page():
    return page_of(ALL)


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
    heads = re.findall(r'<span class="value">(.*?)</span>', page)
    assert len(heads) > 30
    assert all(re.search(r"\((?:[\d.,]+ to [\d.,]+|no interval), n = \d+\)$", each) for each in heads)


def test_drawings_are_well_formed(page):
    drawings = re.findall(r"<svg.*?</svg>(?=\s*</li>|\s*<figcaption)", page, re.DOTALL)
    assert drawings
    for each in drawings:
        ElementTree.fromstring(each)


def test_what_is_wider_than_the_axis_is_not_there(page):
    places = re.findall(r'\b(?:x|x1|x2|width)="([\d.-]+)%"', page)
    assert places and all(0 <= float(each) <= 100 for each in places)


def test_a_table_stands_under_every_figure(page):
    figures = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    assert all("<table>" in each for each in figures)


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


@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(ALL), max_size=12), st.sampled_from(["measured", "disturbed", "failed", "refused"]))
def test_any_part_of_the_records_makes_a_page(some, outcome):
    page_of([*some, record("mxnet-1.6-pip", outcome=outcome, reason="so")])


def test_figures_are_drawn_and_not_blank(tmp_path):
    pytest.importorskip("matplotlib")
    from PIL import Image

    _, parts = parts_of(ALL)
    chosen = charts(parts)[:3]
    roofs = [roof for part in parts for roof in part.roofs]
    written = write_figures([*chosen, chosen[0]], roofs, [], tmp_path / "figures")
    assert len({each.name for each in written}) == len(written) == 5
    for path in written:
        with Image.open(path) as image:
            assert image.width >= 1000
            assert len(image.convert("RGB").getcolors(1 << 20)) > 20


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1234.5, "1,234"), (12.34, "12.3"), (0.5, "0.500"), (0.00002, "0.0000200"), (1e-12, "1.00e-12")],
)
def test_numbers_are_written_as_people_read_them(value, text):
    assert number(value) == text


def test_places_of_an_axis_have_all_their_digits():
    assert [tick_text(each) for each in (0.0, 0.005, 2.5, 10.0, 1500.0)] == ["0", "0.005", "2.5", "10", "1,500"]
