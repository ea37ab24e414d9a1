"""The order of runs, repeats on a busy machine, failures that stop nobody else, interruption and resumption."""

from __future__ import annotations

import pytest

from modak_ansible.errors import CannotPlan, ModakError, TargetUnreachable
from modak_ansible.measuring.history import History
from modak_ansible.measuring.records import RecordFile, read_records
from modak_ansible.measuring.runner import Interrupted, Runner
from modak_ansible.measuring.suites.reader import read_suite
from modak_ansible.measuring.suites.variants import blocks_of

STOCK = "pytorch-2.13-cpu"
LAST = "pytorch-2.13-cpu memory_format=channels_last"
TENSORFLOW = "tensorflow-2.21-cpu"
TWO_ENTRIES = """\
name: example
title: An example
groups:
  - name: stock
    title: Two frameworks
    workload: mnist_cnn
    matrix: [ { entries: [ pytorch-2.13-cpu, tensorflow-2.21-cpu ] } ]
"""


@pytest.fixture
def bench(example, executor, place, plan_of, tmp_path):
    """Measures a suite, as often as it is called; ``said`` are the lines that were shown."""

    class Bench:
        said: list[str] = []
        file = RecordFile(tmp_path / "records" / "example.jsonl")

        def __call__(self, suite=example[0], blocks=example[1], plan=plan_of, **options):
            history = History(suite, self.file.open()[0])
            runner = Runner(
                suite=suite, blocks=blocks, places={"testbed": place}, executor=executor, file=self.file,
                history=history, say=self.said.append, wait=lambda: None, plan=plan, **options,
            )  # fmt: skip
            runner.run()
            return read_records(self.file.path)

    return Bench()


@pytest.fixture
def two(suite_file, known):
    suite = read_suite(suite_file(TWO_ENTRIES), known)
    return suite, blocks_of(suite, known)


def test_variants_take_turns_and_the_order_is_reversed_in_every_other_round(bench, executor):
    records = bench()
    assert executor.runs == [STOCK, LAST, LAST, STOCK]
    assert [(record.round, record.position, record.variant) for record in records] == [
        (1, 1, STOCK), (1, 2, LAST), (2, 1, LAST), (2, 2, STOCK),
    ]  # fmt: skip
    assert {record.outcome for record in records} == {"measured"}


def test_a_record_says_what_ran_and_where(bench):
    record = bench()[1]
    assert (record.suite, record.group, record.settings) == ("example", "pytorch", {"memory_format": "channels_last"})
    assert (record.target.name, record.target.hostname, record.target.architecture) == ("testbed", "node01", "zen2")
    assert record.date.startswith("2023-11-14T22:13:2")  # when the job began
    assert record.allocation.exclusive
    assert record.image.container
    assert record.training.seconds.imports == 1.0


def test_images_are_made_once_and_before_anything_is_measured(bench, executor):
    executor.run = lambda planned, run=executor.run: pytest.fail("too early") if not executor.prepared else run(planned)
    bench()
    assert executor.prepared == [STOCK]


def test_a_disturbed_round_begins_again_at_once(bench, executor, metrics):
    executor.answers[LAST] = [metrics(foreign=1.0)]
    records = bench()
    assert executor.runs == [STOCK, LAST, STOCK, LAST, LAST, STOCK]
    assert [record.attempt for record in records] == [1, 1, 2, 2, 1, 1]
    assert [record.outcome for record in records][:2] == ["measured", "disturbed"]
    assert "others kept 1.00 cores busy" in records[1].reason


def test_a_machine_that_stays_busy_is_given_up_on_and_the_last_try_is_whole(bench, executor, metrics):
    executor.answers[STOCK] = [metrics(foreign=0.5)] * 3
    records = bench()
    assert executor.runs == [STOCK, STOCK, STOCK, LAST, LAST, STOCK]
    assert [record.outcome for record in records] == ["disturbed"] * 3 + ["measured"] * 3
    assert "pytorch, round 1: disturbed 3 times; going on" in bench.said
    executor.runs.clear()
    bench()
    assert executor.runs == []


def test_a_little_noise_and_a_machine_that_says_nothing_are_no_disturbance(bench, executor, metrics):
    executor.answers[STOCK] = [metrics(foreign=0.25), metrics(foreign=None)]
    assert {each.outcome for each in bench()} == {"measured"}


def test_noise_in_the_first_epoch_alone_disturbs_nothing(bench, executor, metrics):
    busy = metrics()
    busy["epochs"][0]["foreign_cores"] = 1.5
    executor.answers[STOCK] = [busy]
    assert bench()[0].outcome == "measured"


def test_an_image_that_cannot_be_built_is_on_record_once_and_the_others_go_on(bench, executor, two):
    suite, blocks = two
    executor.unfit[TENSORFLOW] = ModakError("the build ended with code 1", hint="see the log")
    bench(suite, blocks)
    records = bench(suite, blocks)
    assert [record.variant for record in records] == [TENSORFLOW, *[STOCK] * 5]
    assert (records[0].outcome, records[0].reason) == ("failed", "the build ended with code 1; see the log")
    assert executor.prepared == [STOCK, TENSORFLOW] * 2  # the second time perhaps it can


def test_an_image_that_is_mended_meanwhile_has_its_rounds_measured_side_by_side(bench, executor, two):
    suite, blocks = two
    executor.unfit[TENSORFLOW] = ModakError("the build ended with code 1")
    bench(suite, blocks)
    executor.unfit.clear()
    executor.runs.clear()
    bench(suite, blocks)
    assert executor.runs[:4] == [STOCK, TENSORFLOW, TENSORFLOW, STOCK]


def test_what_a_plan_refuses_is_refused_for_good(bench, executor, two, plan_of):
    def plan(suite, variant, place, run=""):
        if variant.name == TENSORFLOW:
            raise CannotPlan("framework", "its probe failed here")
        return plan_of(suite, variant, place, run)

    suite, blocks = two
    bench(suite, blocks, plan=plan)
    records = bench(suite, blocks, plan=plan)
    assert [record.outcome for record in records] == ["refused", *["measured"] * 5]
    assert executor.prepared == [STOCK]


def test_an_image_that_its_probe_refuses_is_refused(bench, executor, two, plan_of):
    def plan(suite, variant, place, run=""):
        if variant.name == TENSORFLOW and TENSORFLOW in executor.prepared:
            raise CannotPlan("framework", "its probe failed here: illegal instruction")
        return plan_of(suite, variant, place, run)

    executor.unfit[TENSORFLOW] = ModakError("probing: illegal instruction")
    records = bench(*two, plan=plan)
    assert (records[0].outcome, records[0].reason) == ("refused", "its probe failed here: illegal instruction")


def test_a_variant_that_fails_twice_is_left_out(bench, executor, two):
    suite, blocks = two
    executor.answers[TENSORFLOW] = ["the job ended as FAILED"] * 5
    records = bench(suite, blocks)
    failed = [record for record in records if record.variant == TENSORFLOW]
    assert [each.reason for each in failed] == [
        *["the job ended as FAILED"] * 2, *["left out: it failed 2 times before"] * 3,
    ]  # fmt: skip
    assert executor.runs.count(TENSORFLOW) == 2
    assert executor.runs.count(STOCK) == 5
    executor.runs.clear()
    bench(suite, blocks)
    assert executor.runs == []


def test_metrics_that_are_none_are_a_failure(bench, executor):
    executor.answers[STOCK] = [{"schema": "modak.metrics/1", "finished": True}]
    first = bench()[0]
    assert first.outcome == "failed"
    assert first.reason.startswith("its metrics.json is not valid")


def test_an_interrupted_run_is_ended_and_the_suite_goes_on_later(bench, executor):
    executor.answers[LAST] = [KeyboardInterrupt()]
    with pytest.raises(Interrupted):
        bench()
    assert executor.ended == [LAST]
    assert len(read_records(bench.file.path)) == 1
    executor.runs.clear()
    records = bench()
    assert executor.runs == [STOCK, LAST, LAST, STOCK]  # what is compared must have run side by side
    assert [record.attempt for record in records] == [1, 2, 2, 1, 1]


def test_complete_rounds_are_not_run_again(bench, executor):
    bench()
    executor.runs.clear()
    executor.prepared.clear()
    assert len(bench()) == 4
    assert (executor.runs, executor.prepared) == ([], [])


def test_more_rounds_are_added(bench, executor, example, known):
    bench()
    executor.runs.clear()
    bench(blocks=blocks_of(example[0], known, rounds=3))
    assert executor.runs == [STOCK, LAST]


def test_records_of_another_text_of_the_suite_do_not_count(bench, executor, example):
    bench()
    bench(suite=example[0].model_copy(update={"digest": "b" * 64}))
    assert len(executor.runs) == 8


def test_a_target_that_is_gone_ends_the_suite(bench, executor):
    executor.answers[LAST] = [TargetUnreachable("testbed does not answer")]
    with pytest.raises(TargetUnreachable):
        bench()
    assert len(read_records(bench.file.path)) == 1


def test_every_run_has_a_line_with_the_time_left(bench):
    bench()
    lines = [line for line in bench.said if "round" in line]
    assert lines[0].startswith(f"pytorch  {STOCK}  round 1/2  2 s an epoch, 50 images/s  (about ")
    assert lines[-1] == f"pytorch  {STOCK}  round 2/2  2 s an epoch, 50 images/s"
