"""Same numerics is said of what can be compared, and of nothing else."""

from __future__ import annotations

from synthetic_records import LOSSES, rounds

from modak_ansible.measuring.report.numerics import agreement, numerics_tables
from modak_ansible.measuring.report.runs import Run, comparisons


def found(*records):
    return comparisons(Run(record, "a file") for record in records)


def trained(entry, position=1, factor=1.0, **changes):
    same = {"dropout": 0.0, "epochs": 1, "first_losses": [loss * factor for loss in LOSSES]} | changes.pop(
        "trained", {}
    )
    return rounds(entry, 100, "numerics", position, count=2, trained=same, **changes)


def test_losses_without_dropout_are_held_against_the_first_variant():
    ((title, table),) = numerics_tables(
        found(
            *trained("pytorch-2.13-cpu", trained={"gradient_error": 3e-6}), *trained("tensorflow-2.21-cpu", 2, 1.00001)
        )
    )
    assert "dropout 0" in title
    assert [row[0] for row in table.rows] == ["pytorch-2.13-cpu", "tensorflow-2.21-cpu"]
    assert [row[2] for row in table.rows] == ["reference", "1.0e-05"]
    assert [row[3] for row in table.rows] == ["3.0e-06", "not given"]
    assert table.rows[0][4] == "98.0 % (98.0 to 98.0, n = 2)"


def test_losses_with_dropout_are_not_compared():
    ((_, table),) = numerics_tables(found(*rounds("pytorch-2.13-cpu", 100, "group")))
    assert table.columns == ("Variant", "Final accuracy (least to most, n)")


def test_a_network_without_dropout_is_compared_whatever_the_factor():
    ((_, table),) = numerics_tables(found(*rounds("pytorch-2.13-cpu", 10, "resnet50", workload="resnet50")))
    assert table.rows[0][2] == "reference"


def test_agreement_is_said_in_a_sentence():
    both = [*trained("pytorch-2.13-cpu"), *trained("tensorflow-2.21-cpu", 2, 1.00001)]
    drifted = [*LOSSES[:4], LOSSES[4] * 1.02]
    (sentence,) = agreement(found(*both, *trained("jax", 3, trained={"first_losses": drifted})))
    assert sentence.startswith("mnist_cnn begins alike in 3 variants")
    assert "first loss differs by at most 1.0e-05, and none of the first 5 by more than 2.0e-02" in sentence
    (sentence,) = agreement(found(*both, *trained("mxnet-1.6-pip", 3, 1.01)))
    assert "does not begin alike in all of 3 variants" in sentence
    assert "the first loss of mxnet-1.6-pip differs by 1.0e-02 from that of pytorch-2.13-cpu" in sentence


def test_changed_number_formats_do_not_count_as_disagreement():
    low = trained("pytorch-2.13-cpu", 2, 1.01, settings={"precision": "bf16"})
    assert agreement(found(*trained("pytorch-2.13-cpu"), *low)) == []
