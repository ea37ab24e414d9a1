"""The shipped model answers as planning asks it."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError
from traced import need

from modak_ansible.errors import ModakError
from modak_ansible.model.measured.need import Operator
from modak_ansible.model.measured.prediction import Question, Split
from modak_ansible.model.measured.work import Work
from modak_ansible.performance import load_model
from modak_ansible.performance.between import buckets_of
from modak_ansible.performance.doubts import STRANGER
from modak_ansible.performance.explaining import explain
from modak_ansible.performance.model import SHIPPED
from modak_ansible.performance.regression import Vector
from modak_ansible.performance.run import Runs, is_same
from modak_ansible.performance.stored import Machine

PLACE = {"processor": "AMD EPYC", "architecture": "x86_64_v4", "threads": 1, "cores": 1, "node_cores": 2}
PYTORCH = {"framework": "pytorch", "version": "2.13.0", "entry": "pytorch-2.13-cpu", **PLACE}


def question(samples=60_000, epochs=12, **changes):
    work = Work(workload="mnist_cnn", samples=samples, epochs=epochs)
    return Question(**{"work": work, **PYTORCH, **changes})


@pytest.fixture(scope="module")
def model():
    return load_model()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodes", 0), ("processes_per_node", 0), ("copies", 0), ("threads", 0), ("cores", -1), ("node_cores", 0),
        ("peak_gflops", -1.0), ("peak_gflops_bf16", 0.0), ("memory_bandwidth", -2.0), ("latency", -1.0),
        ("bandwidth", 0.0), ("dataset_bytes", -5),
    ],
)  # fmt: skip
def test_a_question_of_what_cannot_be_is_none(field, value):
    with pytest.raises(ValidationError, match=field):
        question(**{field: value})


@pytest.mark.parametrize(
    "settings", [{"gradient_compression": "powersgd_x"}, {"bucket_size": "²"}, {"local_sgd": "²"}, {"local_sgd": "0"}]
)
def test_a_setting_that_gradients_cannot_have_counts_as_none(settings):
    none = {"gradient_compression": "powersgd"} if "gradient_compression" in settings else {}
    assert buckets_of(settings) == buckets_of(none)


def test_a_switch_that_was_measured_to_help_has_an_interval_above_one(model):
    gain = model.gain(question(), question(settings={"precision": "bf16"}))
    assert gain.known
    assert 1 < gain.ratio.low < gain.ratio.middle < gain.ratio.high
    assert gain.records >= 4


def test_more_copies_than_processes_have_a_process_each(model):
    several = {"nodes": 4, "gathers": True, "latency": 50.0, "bandwidth": 1.0}
    asked, most = (question(copies=copies, **several) for copies in (1024, 4))
    assert model.predict(asked).parts["waiting"].middle > model.predict(most).parts["waiting"].middle > 0


def test_what_was_asked_before_has_no_part_in_an_answer(model):
    """Trainings of one blueprint may have one work, and images of their own with other versions of a framework."""
    old = question(entry="", origin="user", settings={"compiler": "inductor"})
    new = old.model_copy(update={"version": "1.4.0"})
    stock = old.model_copy(update={"settings": {}})
    expected = load_model().gain(stock, new)
    assert model.gain(stock, old) != expected
    assert model.gain(stock, new) == expected


def test_what_two_questions_have_in_common_cancels(model):
    same = model.gain(question(), question())
    assert same.ratio.low == same.ratio.middle == same.ratio.high == 1.0


def test_what_is_evaluated_beside_each_epoch_takes_a_third_of_what_trains(model):
    def training(**work):
        made = question().work.model_copy(update=work)
        return model.predict(question(work=made)).parts["training"].middle

    assert training(evaluated=180_000) == pytest.approx(2 * training())


def test_whoever_was_traced_is_not_told_to_trace(model):
    def doubts(**more):
        return [each for each in model.predict(question(work=Work(), **more)).doubts if "how long it trains" in each]

    assert doubts()[0].endswith("; modak trace finds what the script says of it")
    assert doubts(is_traced=True)[0].endswith(
        "; its trace does not show it; modak trace --steps times some of its steps"
    )


def test_a_compiler_that_does_not_pay_for_itself_is_a_loss(model):
    short = model.gain(question(1280, 2), question(1280, 2, settings={"compiler": "inductor"}))
    long = model.gain(question(), question(settings={"compiler": "inductor"}))
    assert short.ratio.high < 1
    assert short.ratio.middle < long.ratio.middle


def test_stock_by_another_name_is_stock(model):
    stock = {"compiler": "none", "memory_format": "contiguous", "precision": "fp32", "input": "loader"}
    assert model.gain(question(), question(settings=stock)).ratio.middle == 1.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"settings": {"memory_format": "spiral"}}, "no record of pytorch with memory_format spiral"),
        (
            {"version": "2.9", "settings": {"compiler": "inductor"}},
            "no record of pytorch 2.9 with compiler inductor, only",
        ),
        ({"framework": "caffe", "entry": "caffe-1"}, "no record of caffe"),
        ({"accelerator": "Fast GPU"}, "no record of a Fast GPU"),
        ({"nodes": 4}, "no record of several processes that train together"),
        ({"threads": 2}, "no record of another number of threads"),
    ],
)
def test_unknown_territory_is_said_to_be_unknown(model, changes, words):
    gain = model.gain(question(), question(**changes))
    assert not gain.known
    assert words in gain.why
    if "threads" not in changes:
        prediction = model.predict(question(**changes))
        assert not prediction.known
        assert any(words in doubt for doubt in prediction.doubts)


NETWORK = {"latency": 300.0, "bandwidth": 0.118}


def test_several_processes_are_predicted_from_one_and_the_network(model):
    alone, together = model.predict(question()), model.predict(question(nodes=4, **NETWORK))
    assert "waiting" not in alone.parts
    assert together.known
    assert any("by the law of one process's steps and the network as measured" in doubt for doubt in together.doubts)
    # a step's gradients are 4.8 MB: 61 ms of a link that sends 1.5 times as many, less what the backward pass hides
    waiting = together.parts["waiting"]
    steps = 12 * 118
    assert (
        waiting.low <= waiting.middle <= waiting.high <= 1.1 * steps * (1.5 * 4 * 1_199_882 / 0.118e9 + 4 * 6 * 300e-6)
    )
    assert together.parts["training"].middle > alone.parts["training"].middle / 4  # the slowest is waited for
    assert together.seconds.high / together.seconds.low > alone.seconds.high / alone.seconds.low


SUMS = {"gradient_compression": "bf16"}


@pytest.mark.parametrize("other", [{"settings": SUMS}, {"settings": {"local_sgd": "4"}}, {"shares_batch": True}])
def test_what_sums_would_gain_over_a_network_that_nobody_measured_is_unknown(model, other):
    gain = model.gain(question(nodes=4), question(nodes=4, **other))
    assert not gain.known
    assert "nor of the cost of messages between nodes" in gain.why


def test_what_sums_gain_is_known_by_their_law_and_by_no_record(model):
    gain = model.gain(question(nodes=4, **NETWORK), question(nodes=4, settings=SUMS, **NETWORK))
    assert gain.known
    assert gain.ratio.middle > 1
    assert gain.records == 0
    besides = {**SUMS, "precision": "bf16"}
    assert model.gain(question(nodes=4, **NETWORK), question(nodes=4, settings=besides, **NETWORK)).records > 0


def test_what_the_model_does_not_tell_apart_has_no_number(model):
    gain = model.gain(*(question(settings={"large_batch": value}, nodes=4, **NETWORK) for value in ("linear", "lars")))
    assert not gain.known
    assert "does not tell them apart" in gain.why


def test_of_sums_steady_steps_alone_tell_nothing(model):
    bare = {"work": Work(parameters=10**6), "nodes": 4, **NETWORK}
    gain = model.gain(question(**bare), question(**bare, settings=SUMS))
    assert not gain.known
    assert "how long the run is" in gain.why


def test_a_slower_network_takes_longer_and_one_process_has_none(model):
    slow = {"latency": 300.0, "bandwidth": 0.0118}
    assert model.predict(question(**slow)) == model.predict(question())
    quick, late = (model.predict(question(nodes=4, **each)).seconds.middle for each in (NETWORK, slow))
    assert late > quick


def test_a_shared_batch_means_as_many_steps_of_less(model):
    shared = model.predict(question(nodes=4, shares_batch=True, **NETWORK)).parts
    own = model.predict(question(nodes=4, **NETWORK)).parts
    assert shared["waiting"].middle > 3 * own["waiting"].middle
    one = model.predict(question()).parts["training"].middle
    assert one / 4 < shared["training"].middle < one


def test_without_parameters_nobody_knows_what_is_sent(model):
    unknown = model.predict(
        question(work=Work(gflop_per_sample=1.0, samples=1000, epochs=1, batch_size=8), nodes=2, **NETWORK)
    )
    assert not unknown.known
    assert any("does not give its parameters" in doubt for doubt in unknown.doubts)


def test_without_epochs_the_ratio_is_that_of_steady_steps(model):
    bare = {"work": Work()}
    gain = model.gain(question(**bare), question(**bare, settings={"compiler": "inductor"}))
    assert "of steady steps alone" in gain.why
    prediction = model.predict(question(**bare))
    assert not prediction.known
    assert any("how long it trains is not known" in doubt for doubt in prediction.doubts)


def test_a_prediction_is_the_sum_of_its_parts(model):
    prediction = model.predict(question())
    assert prediction.seconds.middle == pytest.approx(sum(part.middle for part in prediction.parts.values()))
    assert prediction.seconds.low < prediction.seconds.middle < prediction.seconds.high
    assert prediction.core_hours == pytest.approx(prediction.seconds.middle / 3600)
    assert prediction.known
    assert prediction.doubts == ()


def test_a_machine_without_records_differs_as_much_as_five_others_do(model):
    """More, and one run there would move all others by its own luck; less, and it would be promised what nobody saw."""
    step = model.stored.parts["step"]
    assert len(model.stored.machines) == 5
    effects = [mean for name, mean in zip(step.names, step.mean, strict=True) if name.startswith("machine ")]
    usual = (sum(each**2 for each in effects) / len(effects)) ** 0.5
    assert usual < step.spread["machine"] < 0.1  # a run differs by as much from what everything else says of it


STRANGE = {"processor": "Other Processor", "architecture": "icelake", "peak_gflops": 200.0, "memory_bandwidth": 30.0}


@pytest.mark.parametrize(("work", "gflop"), [("standard/cnn-small", 0.1), ("of one's own", 1.0)])
def test_a_number_format_gains_what_the_machine_has_units_for(model, work, gflop):
    """One processor with instructions for bf16 multiplies at twice the speed of single precision, another at half of it.

    Beside tcmalloc, as plans have it: alone, the copies that bf16 makes cost small networks what it gains. Of a work
    that nobody measured it is sure where steps are large: of small ones those with attention lose.
    """

    def gain(**there):
        asked = {"work": Work(workload=work, gflop_per_sample=gflop, batch_size=64), **STRANGE, **there}
        kept = {"allocator": "tcmalloc"}
        return model.gain(question(**asked, settings=kept), question(**asked, settings={**kept, "precision": "bf16"}))

    slow, quick, unknown = gain(peak_gflops_bf16=100.0), gain(peak_gflops_bf16=400.0), gain()
    assert slow.ratio.middle < 0.9
    assert not slow.is_faster()
    assert quick.ratio.middle > 1.2
    assert quick.is_faster()
    assert slow.ratio.middle < unknown.ratio.middle < quick.ratio.middle
    assert unknown.ratio.low < slow.ratio.low
    assert unknown.ratio.high > quick.ratio.high
    assert not unknown.is_faster()
    assert (slow.known, quick.known, unknown.known) == (True, True, False)
    assert (
        "what bf16 gains on Other Processor (icelake) was not measured: `modak discover --measure` does that"
        in unknown.why
    )
    assert "nobody measured" not in quick.why + slow.why


def test_many_calls_make_a_small_step_slower_and_hardly_a_large_one(model):
    """As the layers of a network on a table, which wait for their calls."""

    def ratio(gflop):
        work = Work(workload="mine", gflop_per_sample=gflop, operators=((gflop, gflop / 100),), batch_size=32)
        few, many = (work.model_copy(update={"calls": calls}) for calls in (10, 1000))
        return model.step_seconds(model.runs.of(question(work=many))) / model.step_seconds(
            model.runs.of(question(work=few))
        )

    assert ratio(0.001) > 2
    assert 1 < ratio(1.0) < 1.02


def test_an_accelerator_computes_while_its_process_calls(model):
    work = Work(workload="mine", gflop_per_sample=0.001, operators=((0.001, 1e-5),), batch_size=32, calls=1000)
    there = {"accelerator": "NVIDIA A100", "peak_gflops": 19_500.0, "memory_bandwidth": 1555.0}
    alone = work.model_copy(update={"calls": None})
    with_calls, without = (model.runs.of(question(work=each, **there)).facts for each in (work, alone))
    assert with_calls.over_ideal == without.over_ideal is not None


def test_another_machine_is_less_sure(model):
    here = model.gain(question(), question(settings={"precision": "bf16"})).ratio
    there = {"processor": "Other Processor", "peak_gflops": 400.0, "peak_gflops_bf16": 800.0}
    gain = model.gain(question(**there), question(**there, settings={"precision": "bf16"}))
    assert (
        "AMD EPYC (x86_64_v4), AMD EPYC (zen2), AMD EPYC family 25 model 17 (x86_64_v4), "
        "Intel(R) Xeon(R) Processor (icelake) and Intel(R) Xeon(R) Processor family 6 model 207 (icelake), not on Other Processor"
        in gain.why
    )
    assert gain.ratio.high / gain.ratio.low > here.high / here.low


@pytest.mark.parametrize(
    ("there", "same"),
    [
        ({}, True),
        ({"architecture": "zen3"}, False),  # it has no AVX-512, whatever it is called
        ({"architecture": "icelake"}, None),
        ({"architecture": "x86_64"}, None),
        ({"architecture": "icelake", "peak_gflops": 2 * 102.0}, True),
        ({"peak_gflops": 2 * 30.0}, False),
        ({"architecture": "zen3", "peak_gflops": 2 * 102.0}, False),
        ({"architecture": "aarch64"}, False),
        ({"architecture": "nobody knows"}, False),
        ({"processor": "AMD EPYC family 26 model 2"}, None),  # the records do not say of which family theirs is
        ({"processor": "AMD EPYC family 26 model 2", "peak_gflops": 2 * 30.0}, False),
    ],
)
def test_a_machine_is_known_by_what_it_has_and_not_by_its_name(model, there, same):
    there = {**PLACE, **there}
    (machine,) = (machine for machine in model.stored.machines if machine.name == "AMD EPYC (x86_64_v4)")
    asked = question(**there)
    assert is_same(machine, asked) is same
    if same:
        return
    strange = model.predict(question(**there if same is None else {"peak_gflops": 204.0, **there}))
    here = model.predict(question()).seconds
    assert here.high / here.low < 1.5  # and a factor of 1.25 at least either way: what five machines say of another
    assert strange.seconds.high / strange.seconds.low > 1.25**2
    (told,) = [doubt for doubt in strange.doubts if doubt.endswith(STRANGER)]
    assert f"{there['processor'] if same is False else 'AMD EPYC'} ({there['architecture']})" in told


def test_a_name_with_its_vendors_numbers_goes_before_one_without(model):
    """A Zen 4 has records of its own beside those of a Zen 5 that archspec cannot tell from it."""
    prediction = model.predict(question(processor="AMD EPYC family 25 model 17"))
    assert not [doubt for doubt in prediction.doubts if doubt.endswith(STRANGER)]


def test_a_traced_step_is_explained_by_its_operators(model):
    """An operator takes what it computes at the peak or what it moves at the bandwidth, call by call."""
    peak, bandwidth = 102.032, 21.4642  # as measured on the machine that is asked for
    shared = {"shapes": (), "format": "float32", "count": 2}
    operators = (
        Operator(name="relu", flop=0, bytes=10**9, **shared),
        Operator(name="mm", flop=10**10, bytes=10**6, **shared),
        Operator(name="mm", flop=10**6, bytes=10**8, **shared),
    )
    found = explain(model, question(), need().model_copy(update={"operators": operators})).operators
    assert [(each.name, each.calls) for each in found] == [("mm", 4), ("relu", 2)]
    assert [each.seconds for each in found] == pytest.approx([10 / peak + 0.1 / bandwidth, 1 / bandwidth], rel=1e-3)
    stranger = question(processor="Other Processor", peak_gflops=400.0)
    assert explain(model, stranger, need().model_copy(update={"operators": operators})).operators == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.update(schema_version="modak.model/0"), "another version"),
        (lambda data: data.update(schema_version="modak.model/3"), "another version"),  # in parts of other size
        (lambda data: data.update(features=99), "another version"),
        (lambda data: data["parts"]["step"]["mean"].pop(), "different lengths"),
        (lambda data: data["parts"]["step"].pop("noise"), "noise"),
        (lambda data: data["parts"]["step"]["correlations"].__setitem__(3, "1 2"), "no triangle"),
    ],
)
def test_a_model_that_is_not_this_versions_is_refused(tmp_path, change, words):
    data = json.loads(SHIPPED.read_text())
    change(data)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(data))
    with pytest.raises(ModakError, match="modak model fit makes a new one") as refused:
        load_model(path)
    assert words in str(refused.value)


def test_a_row_that_holds_no_numbers_is_refused_where_it_is_asked_for(tmp_path):
    data = json.loads(SHIPPED.read_text())
    data["parts"]["step"]["correlations"][1] = "many"
    path = tmp_path / "model.json"
    path.write_text(json.dumps(data))
    regression = load_model(path).regressions["step"]
    assert regression.variance(Vector({0: 1.0}, {})) > 0
    with pytest.raises(ModakError, match="the fitted model is damaged: correlations.1: .*'many'") as refused:
        regression.variance(Vector({0: 1.0, 1: 1.0}, {}))
    assert refused.value.hint == "modak model fit makes a new one"


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"schema_version": []}', "\x00"])
def test_a_damaged_model_is_refused(tmp_path, text):
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(ModakError, match="modak model fit makes a new one"):
        load_model(path)


def test_parameters_that_are_gathered_travel_three_times_where_gradients_do_twice(model):
    asked = {"nodes": 4, "shares_batch": True, **NETWORK}
    summed = model.predict(question(**asked)).parts["waiting"]
    gathered = model.predict(question(gathers=True, **asked)).parts["waiting"]
    assert gathered.middle > 2 * summed.middle  # gloo sums everywhere what it scatters, and nothing hides
    steps, once = 12 * 60_000 / 128, 4 * 1_199_882 / 0.118e9
    sent = (2 * 3.5 / 4 + 2 * 3 / 4) * once
    assert steps * sent < gathered.middle < steps * (sent + 16 * 4 * 3 * 300e-6) * 1.01  # and messages of each layer


def test_pieces_of_a_batch_wait_for_each_other_and_for_what_goes_between_stages(model):
    alone = model.predict(question()).parts["training"].middle
    split = Split(left=11 / 8 / 4, messages=22, size=2_200_000, are_sums=False)
    together = model.predict(question(nodes=4, split=split, **NETWORK)).parts
    assert 11 / 8 / 4 * alone < together["training"].middle < alone
    assert together["waiting"].middle == pytest.approx(
        12 * 60_000 / 128 * (22 * 300e-6 + 2_200_000 / 0.118e9), rel=0.01
    )
    follows = model.predict(question(nodes=4, split=split.model_copy(update={"followed": 900}), **NETWORK)).parts
    more = follows["waiting"].middle - together["waiting"].middle
    assert more == pytest.approx(12 * 60_000 / 128 * 900 * 136e-6, rel=0.01)


def test_copies_wait_for_sums_of_their_gradients_besides(model):
    split = Split(left=0.3, messages=40, size=40_000_000, gradients=2_000_000)
    waits = model.predict(question(nodes=4, split=split, copies=2, **NETWORK)).parts["waiting"]
    steps = 12 * 60_000 / 128
    sums = 2 * 40 * 300e-6 + 40_000_000 / 0.118e9  # of two ranks, whatever there are of copies
    gradients = 2 * 300e-6 + 2_000_000 / 0.118e9
    assert waits.middle == pytest.approx(steps * (sums + gradients), rel=0.01)
    assert waits.low == pytest.approx(steps * 0.9 * sums, rel=0.01)  # the backward pass may hide all of them
    both = {"nodes": 4, "shares_batch": True, "gathers": True, **NETWORK}
    whole, halves = (model.predict(question(copies=copies, **both)).parts["waiting"].middle for copies in (1, 2))
    assert halves < whole  # half of the gathering goes between two, and half of the gradients between the other two


def test_layers_that_are_split_share_out_their_compute_and_wait_for_sums_of_activations(model):
    split = Split(left=0.4375, messages=40, size=40_000_000)
    alone = model.predict(question()).parts["training"].middle
    together = model.predict(question(nodes=4, split=split, **NETWORK)).parts
    assert (1 - 0.75 * 3 / 4) * alone < together["training"].middle < alone
    steps = 12 * 60_000 / 128
    waits = 6 * 40 * 300e-6 + 1.5 * 40_000_000 / 0.118e9  # as many steps as one process makes
    assert together["waiting"].middle == pytest.approx(steps * waits, rel=0.01)
    untraced = model.predict(question(nodes=4, split=Split(), **NETWORK))
    assert any("no trace shows what ranks that share out layers send" in doubt for doubt in untraced.doubts)


@pytest.mark.parametrize(("batch", "nodes", "steps"), [(512, 3, 118), (4, 8, 15_000), (512, 4, 118)])
def test_an_epoch_of_ranks_that_share_a_batch_has_as_many_steps_as_that_of_one(model, batch, nodes, steps):
    work = Work(workload="mnist_cnn", samples=60_000, epochs=1, batch_size=batch)
    assert model.runs.of(question(work=work, nodes=nodes, shares_batch=True, **NETWORK)).steps == steps


def test_a_gain_is_as_unsure_as_what_ranks_wait_for_each_other(model):
    asked = (question(**NETWORK), question(nodes=4, **NETWORK))
    found = model.gain(*asked).ratio
    before, after = (model.predict(each).parts for each in asked)

    def seconds(parts, end):
        return sum(getattr(part, end if name == "waiting" else "middle") for name, part in parts.items())

    bounds = [seconds(before, end) / seconds(after, end) for end in ("low", "high")]
    assert found.low < min(bounds) < found.middle < max(bounds) < found.high


A100 = Machine(name="NVIDIA A100", processor="NVIDIA A100", architecture="zen3", peaks={1: 19_500.0})
EPYC = Machine(name="AMD EPYC (zen3)", processor="AMD EPYC", architecture="zen3", peaks={1: 100.0})


@pytest.mark.parametrize(
    ("accelerator", "machine"),
    [("amd", None), ("NVIDIA V100", None), ("accelerator", None), ("nvidia", A100), ("NVIDIA A100", A100)],
)
def test_an_accelerator_is_one_of_the_records_and_no_processor(accelerator, machine):
    runs = Runs({}, (A100, EPYC))
    found = runs.of(question(accelerator=accelerator, threads=8))
    assert found.machine == machine
    assert found.peak == (19_500.0 if machine else None)
    assert runs.of(question(processor="", architecture="zen3")).machine == EPYC
