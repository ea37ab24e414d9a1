"""Whether a finding holds is said by the interval, and by nothing else."""

from __future__ import annotations

import pytest
from synthetic_records import record, rounds

from modak_ansible.errors import ModakError
from modak_ansible.measuring.report.paper import Claim, paper, read_paper
from modak_ansible.measuring.report.runs import Run, comparisons
from modak_ansible.measuring.report.verdicts import judge, verdicts
from modak_ansible.measuring.statistics import Ratio
from modak_ansible.store.project import shipped

FASTER, SLOWER, ALIKE = Claim(above=1.0), Claim(below=1.0), Claim(above=0.8, below=1.25)


def judged(name, *records):
    finding = next(finding for finding in paper().findings if finding.name == name)
    return verdicts(finding, comparisons(Run(record, "a file") for record in records))


@pytest.mark.parametrize(
    ("claim", "low", "high", "word"),
    [
        (FASTER, 1.01, 1.2, "holds"),
        (FASTER, 0.8, 0.99, "does not hold"),
        (FASTER, 0.99, 1.2, "cannot be said"),
        (SLOWER, 0.7, 0.9, "holds"),
        (SLOWER, 1.0, 1.2, "does not hold"),
        (SLOWER, 0.9, 1.2, "cannot be said"),
        (ALIKE, 0.85, 1.2, "holds"),
        (ALIKE, 1.3, 1.5, "does not hold"),
        (ALIKE, 0.3, 0.5, "does not hold"),
        (ALIKE, 0.7, 0.9, "cannot be said"),
        (ALIKE, 1.1, 1.4, "cannot be said"),
        (ALIKE, 0.5, 2.0, "cannot be said"),
    ],
)
def test_the_whole_interval_must_say_it(claim, low, high, word):
    said, reason = judge(Ratio((low + high) / 2, low, high, 5), claim)
    assert said == word
    assert (reason == "") == (word != "cannot be said")


def test_the_bound_that_is_covered_is_named():
    assert judge(Ratio(1.2, 1.1, 1.4, 5), ALIKE)[1] == "the interval covers 1.25"
    assert judge(Ratio(0.9, 0.7, 0.9, 5), ALIKE)[1] == "the interval covers 0.8"


def test_one_round_and_no_round_say_nothing():
    assert judge(Ratio(5.0, None, None, 1), FASTER) == ("cannot be said", "one round has no interval")
    assert judge(None, FASTER) == ("cannot be said", "no round measured both")


def test_xla_is_held_against_the_same_build_without_it():
    found = judged(
        "xla-cpu",
        *rounds("tensorflow-2.1-pip", 1000, "compilers"),
        *rounds("tensorflow-2.1-pip", 700, "compilers", settings={"compiler": "xla"}),
        *rounds("tensorflow-2.1-pip", 500, "compilers", settings={"compiler": "xla", "matmul": "onednn"}),
        *rounds("tensorflow-2.21-cpu", 2000, "compilers"),
        *rounds("tensorflow-2.21-cpu", 2400, "compilers", settings={"compiler": "xla"}),
    )
    assert [(judged.word, round(judged.ratio.median, 2), judged.today) for judged in found] == [
        ("holds", 0.7, False),
        ("does not hold", 1.2, True),
    ]


def test_a_refused_entry_gives_its_reason():
    (found,) = judged(
        "ngraph",
        *rounds("tensorflow-1.14-pip", 1000, "compilers"),
        record("tensorflow-1.14-ngraph-pip", "compilers", outcome="refused", reason="its probe stopped"),
    )
    assert (found.word, found.reason) == ("cannot be said", "tensorflow-1.14-ngraph-pip refused: its probe stopped")


def test_disturbed_runs_do_not_count():
    assert not judged(
        "tensorflow-2.1",
        *rounds("tensorflow-1.14-pip", 1000, "stock-images"),
        *rounds("tensorflow-2.1-pip", 1500, "stock-images", outcome="disturbed"),
    )[0].ratio


def test_machines_and_files_are_not_mixed():
    elsewhere = record("tensorflow-2.1-pip").target.model_dump() | {"name": "elsewhere", "processor": "another"}
    assert not judged(
        "tensorflow-2.1",
        *rounds("tensorflow-1.14-pip", 1000, "stock-images"),
        *rounds("tensorflow-2.1-pip", 1500, "stock-images", target=elsewhere),
    )
    finding = next(finding for finding in paper().findings if finding.name == "tensorflow-2.1")
    runs = [Run(each, "one") for each in rounds("tensorflow-1.14-pip", 1000, "stock-images")]
    runs += [Run(each, "two") for each in rounds("tensorflow-2.1-pip", 1500, "stock-images")]
    assert verdicts(finding, comparisons(runs))[0].reason == "no round measured both"


def test_containers_are_held_against_the_same_entry_without_one():
    native = rounds("pytorch-2.13-cpu", 1000, "native", settings={"container": "native"})
    (found,) = judged("container", *native, *rounds("pytorch-2.13-cpu", 1100, "native", 2))
    assert (found.word, found.baseline.container, found.other.container) == ("holds", False, True)
    (started,) = judged("import", *native, *rounds("pytorch-2.13-cpu", 1100, "native", 2))
    assert started.word == "does not hold"  # as fast as each other: the interval is 1 to 1


def test_a_version_is_not_taken_for_one_that_begins_alike():
    """2.13 of TensorFlow would not be the paper's 2.1."""
    found = judged(
        "tensorflow-2.1",
        *rounds("tensorflow-1.14-pip", 1000, "stock-images"),
        *rounds("tensorflow-2.1-pip", 1500, "stock-images", version="2.13.1"),
    )
    assert [judged.today for judged in found] == [True]


def test_what_never_ran_needs_no_processor():
    nowhere = record("tensorflow-1.14-pip").target.model_dump() | {"processor": ""}
    (found,) = judged(
        "ngraph",
        *rounds("tensorflow-1.14-pip", 1000, "compilers"),
        record("tensorflow-1.14-ngraph-pip", "compilers", outcome="refused", reason="stops", target=nowhere),
    )
    assert found.reason == "tensorflow-1.14-ngraph-pip refused: stops"


def test_what_the_paper_said_is_read_from_a_file(tmp_path):
    """Another claim is a line of that file, and no change of the package."""
    text = (shipped("benchmarks") / "paper.yaml").read_text()
    file = tmp_path / "paper.yaml"
    file.write_text(text.replace("holds: { below: 0.5,", "holds: { below: 0.25,"))
    other = {finding.name: finding for finding in read_paper(file).findings}
    assert judge(Ratio(0.4, 0.3, 0.45, 5), paper().findings[2].holds)[0] == "holds"
    assert judge(Ratio(0.4, 0.3, 0.45, 5), other["cntk"].holds)[0] == "does not hold"


@pytest.mark.parametrize("text", ["", "[]", "findings: [", "versions: {}\nfindings: [{name: one}]"])
def test_a_file_that_describes_no_paper_is_named(tmp_path, text):
    file = tmp_path / "paper.yaml"
    file.write_text(text)
    with pytest.raises(ModakError, match=r"paper\.yaml is not a description of a paper"):
        read_paper(file)


def test_the_headline_and_the_figures_are_of_findings_that_there_are():
    assert set(paper().headline) <= {finding.name for finding in paper().findings}
    sources = [finding.source for finding in paper().findings]
    assert all(any(source.startswith(figure.source) for source in sources) for figure in paper().figures.values())
