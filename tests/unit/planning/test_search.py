"""What is taken, what is not, and the reasons that people are told."""

from __future__ import annotations

import pytest
from measured import Measured

from modak_ansible.errors import CannotPlan
from modak_ansible.model.measured.prediction import Gain, Interval
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import request_of
from modak_ansible.reading.blueprint.reader import Inputs


@pytest.fixture
def plan(blueprint):
    def make(model=None, **wishes):
        request = request_of(blueprint.service, Inputs())
        optimisation = request.optimisation.model_copy(update=wishes)
        return make_plan(request.model_copy(update={"optimisation": optimisation}), model=model)

    return make


def choice(made, name):
    return next(choice for choice in made.choices if choice.name == name)


def test_without_records_stock_stays(plan):
    made = choice(plan(), "allocator")
    assert (made.value, made.stock, made.speed) == ("system", "system", None)
    assert made.rejected[0].reason == "nothing similar was measured"


def test_a_gain_that_is_more_than_noise_is_taken(plan):
    made = choice(plan(Measured(allocator_tcmalloc=1.3)), "allocator")
    assert (made.value, made.records) == ("tcmalloc", 5)
    assert made.speed.middle == pytest.approx(1.3)
    assert made.rejected[0].reason == "slower here"


def test_a_gain_inside_the_noise_is_not_taken(plan):
    made = choice(plan(Measured(spread=0.2, allocator_tcmalloc=1.05)), "allocator")
    assert made.value == "system"
    assert made.rejected[0].reason == "no difference beyond noise"
    assert made.rejected[0].speed.middle == pytest.approx(1.05)


def test_what_is_slower_is_taken_where_it_is_asked_for(plan):
    model = Measured(allocator_tcmalloc=0.8)
    made = choice(plan(model, allocator="tcmalloc"), "allocator")
    assert (made.value, made.reason) == ("tcmalloc", "asked for")
    assert made.speed.middle == pytest.approx(0.8)


class OfThreads(Measured):
    """A model that has records of one work with other numbers of threads, the fewer the faster, or none of them."""

    def __init__(self, *, known):
        super().__init__()
        self._known = known

    def gain(self, old, new):
        if old.threads == new.threads:
            return super().gain(old, new)
        ratio = old.threads / new.threads if old.threads and new.threads else 1.0
        interval = Interval(middle=ratio, low=ratio * 0.9, high=ratio * 1.1)
        return Gain(ratio=interval, records=7, known=self._known, why="" if self._known else "no record")


def test_fewer_threads_are_taken_where_this_work_was_measured_with_them(plan):
    made = plan(OfThreads(known=True), numerics="reassociation")
    threads = choice(made, "threads")
    assert (threads.value, made.job.threads, threads.numerics) == ("1", 1, "reassociation")
    assert threads.reason.startswith("measured for this work")
    assert [each.reason for each in threads.rejected if each.value == "4"] == ["slower here"]
    assert choice(made, "wait_policy").reason == "a single thread waits for no other"


@pytest.mark.parametrize(
    ("known", "wishes"),
    [(False, {"numerics": "reassociation"}), (True, {}), (True, {"numerics": "reassociation", "threads": 4})],
)
def test_else_threads_are_the_cores(plan, known, wishes):
    made = choice(plan(OfThreads(known=known), **wishes), "threads")
    assert made.value == "4"
    assert [each.value for each in made.rejected if not each.reason.startswith("the scheduler")] == [made.stock]


def test_safety_goes_before_speed(plan):
    model = Measured(wait_policy_adaptive=0.8)
    made = choice(plan(model), "wait_policy")
    assert made.value == "adaptive"
    assert "others may use the node" in made.reason


def test_a_wish_that_cannot_be_had_is_refused_with_its_place(plan, blueprint):
    blueprint.replace("username: alice", "container_runtime: none")
    with pytest.raises(CannotPlan, match="tcmalloc is not available: without a container") as caught:
        plan(allocator="tcmalloc")
    assert caught.value.about == "optimisation.allocator"
    assert caught.value.hint == "use any, or system"


def test_candidates_hold_the_chosen_one_and_stock(plan):
    model = Measured(allocator_tcmalloc=1.3)
    chosen, stock, *others = plan(model).candidates
    assert (chosen.chosen, chosen.settings["allocator"]) == (True, "tcmalloc")
    assert (stock.note, stock.settings) == ("stock", {})
    assert chosen.prediction.seconds.middle < stock.prediction.seconds.middle
    assert not any(each.chosen for each in others)


def test_the_same_request_and_model_give_the_same_digest(plan):
    model = Measured(allocator_tcmalloc=1.3)
    assert plan(model).digest == plan(model).digest
    assert plan(model).digest != plan().digest


# --- contradictions


@pytest.mark.parametrize(
    ("wishes", "about", "words"),
    [
        ({"precision": "bf16"}, "precision", "bf16 is not available"),
        ({"compiler": "xla"}, "compiler", "it does not include xla"),
        ({"compiler": "hybridize", "numerics": "any"}, "compiler", "it does not include hybridize"),
        ({"matmul": "onednn"}, "matmul", "onednn sums in another order, and numerics: same is asked for"),
        ({"memory_format": "channels_last"}, "memory_format", "the script does not call prepare"),
        ({"threads": 5}, "threads", "5 threads are more than the 4 cores"),
        ({"batch_size": "any"}, "batch_size", "another batch size changes results"),
    ],
)
def test_what_contradicts_is_refused_with_its_place(plan, wishes, about, words):
    with pytest.raises(CannotPlan) as caught:
        plan(**wishes)
    assert caught.value.about == f"optimisation.{about}"
    assert words in caught.value.message


def test_a_compiler_that_no_build_has_is_refused_with_those_that_are_there(plan, blueprint):
    with pytest.raises(CannotPlan) as caught:
        plan(compiler="xla")
    assert caught.value.hint == "compilers there: glow, inductor"
    blueprint.replace("framework: pytorch", 'framework: pytorch\n        version: "1.4"')
    with pytest.raises(CannotPlan, match="it does not include xla") as caught:
        plan(compiler="xla")
    assert (caught.value.about, caught.value.hint) == ("optimisation.compiler", "compilers there: glow")


def test_a_number_format_needs_leave_to_change_results(plan, blueprint):
    (blueprint.path / "train" / "train.py").write_text("import modak_runtime\n")
    blueprint.replace("skylake_avx512", "zen5")
    with pytest.raises(CannotPlan, match="bf16 changes results, and numerics: same is asked for") as caught:
        plan(precision="bf16")
    assert (caught.value.about, caught.value.hint) == ("optimisation.precision", "numerics: any permits it")
    assert choice(plan(precision="bf16", numerics="any"), "precision").value == "bf16"


def test_a_wish_for_a_framework_that_has_nothing_to_choose(plan, blueprint):
    blueprint.replace("framework: pytorch", "framework: jax")
    with pytest.raises(CannotPlan, match="optimisation.memory_format has no such value here"):
        plan(memory_format="contiguous")


def test_exploring_does_not_stumble_over_a_wish(plan, blueprint):
    """tcmalloc would make the huge pages that are asked for impossible, so it is not taken."""
    blueprint.replace("framework: pytorch", "framework: tensorflow")
    made = plan(Measured(allocator_tcmalloc=2), huge_pages="transparent")
    assert choice(made, "allocator").value == "system"
    assert choice(made, "huge_pages").value == "transparent"


# --- the descent


def test_what_pays_only_together_with_another_is_found(plan, blueprint):
    (blueprint.path / "train" / "train.py").write_text("import modak_runtime\n")
    model = Measured(memory_format_channels_last=1.2, allocator_tcmalloc=1.1, compiler_inductor=0.8)
    made = plan(model, numerics="reassociation")
    assert {choice.name for choice in made.choices if choice.value in ("channels_last", "tcmalloc")} == {
        "memory_format", "allocator",
    }  # fmt: skip
    assert made.candidates[0].settings["memory_format"] == "channels_last"
    assert made.candidates[0].numerics == "reassociation"


def test_what_safety_sets_and_nobody_measured_leaves_a_prediction(plan):
    made = plan(Measured(allocator_tcmalloc=1.3, unknown=("wait_policy_brief",)), entry="pytorch-1.4-pip")
    best = made.candidates[0]
    assert best.settings["wait_policy"] == "brief"
    assert best.prediction.known
    assert best.prediction.seconds.middle == pytest.approx(100 / 1.3, rel=1e-3)
    assert best.prediction.doubts == ("without the effect of wait policy brief, which was not measured",)
    assert not plan(Measured(unknown=("pytorch-2.13-cpu",))).candidates[0].prediction.known


def test_what_opens_another_option_is_weighed_together_with_it(plan, blueprint):
    """A compiler that slows single operations down may be what lets the whole step be one function."""
    switches = "{ compiler: [none, inductor], step_loop: [plain, whole] }"
    (blueprint.path / "train" / "workload.yaml").write_text(
        "name: work\ntitle: Work\nkind: training\n"
        f"scripts:\n  - {{ framework: pytorch, script: train.py, switches: {switches} }}\n"
    )
    made = plan(Measured(compiler_inductor=0.9, step_loop_whole=1.3), numerics="reassociation")
    assert (choice(made, "compiler").value, choice(made, "step_loop").value) == ("inductor", "whole")
    assert "    --compiler inductor\n    --step-loop whole\n" in made.job.script
    made = plan(Measured(compiler_inductor=0.9, step_loop_whole=1.05), numerics="reassociation")
    assert (choice(made, "compiler").value, choice(made, "step_loop").value) == ("none", "plain")


def test_what_numerics_forbid_is_shown_with_its_promise(plan, blueprint):
    (blueprint.path / "train" / "train.py").write_text("import modak_runtime\n")
    blueprint.replace("skylake_avx512", "zen5")
    made = plan(Measured(precision_bf16=1.8))
    (bf16,) = [rejected for rejected in choice(made, "precision").rejected if rejected.value == "bf16"]
    assert bf16.speed.middle == pytest.approx(1.8)
    assert bf16.reason == "it changes results, and numerics: same is asked for"
    assert [candidate.note for candidate in made.candidates if candidate.settings.get("precision") == "bf16"] == [
        "needs numerics: any"
    ]


def test_a_gain_below_one_percent_is_no_gain(plan):
    assert choice(plan(Measured(spread=0, allocator_tcmalloc=1.005)), "allocator").value == "system"


# --- builds


def test_the_default_build_stays_unless_another_is_known_to_be_faster(plan, blueprint):
    blueprint.replace("framework: pytorch", "framework: keras")
    assert choice(plan(), "image").value == "keras-3.15-tensorflow-cpu"
    made = plan(Measured(entries={"keras-3.15-pytorch-cpu": 1.2, "keras-3.15-jax-cpu": 1.5}))
    assert choice(made, "image").value == "keras-3.15-jax-cpu"
    rejected = {rejected.value: rejected for rejected in choice(made, "image").rejected}
    assert rejected["keras-3.15-tensorflow-cpu"].reason == "slower here"
    assert rejected["keras-3.15-pytorch-cpu"].speed.middle == pytest.approx(1.2 / 1.5)
    noisy = plan(Measured(spread=0.6, entries={"keras-3.15-jax-cpu": 1.2}))
    assert choice(noisy, "image").value == "keras-3.15-tensorflow-cpu"


WORKLOAD = """\
name: work
title: Work
kind: training
scripts:
  - { framework: pytorch, versions: ">=2", script: train.py }
  - { framework: tensorflow, versions: ">=2.16", script: in_tensorflow.py }
  - { framework: jax, script: in_jax.py }
"""


@pytest.fixture
def free(blueprint):
    """The example, for which any framework will do; its script for JAX does not travel."""
    (blueprint.path / "train" / "workload.yaml").write_text(WORKLOAD)
    (blueprint.path / "train" / "in_tensorflow.py").write_text("")
    return blueprint.replace("framework: pytorch", "framework: any")


def test_any_framework_takes_the_fastest_and_its_script(free, plan):
    made = plan(Measured(entries={"tensorflow-2.21-cpu": 1.4}))
    assert made.image.entry == "tensorflow-2.21-cpu"
    assert (made.application.framework, made.application.script) == ("tensorflow", "in_tensorflow.py")
    assert "    in_tensorflow.py\n" in made.job.script


def test_any_framework_without_records_takes_the_first(free, plan):
    made = plan()
    assert (made.application.framework, made.application.script) == ("pytorch", "train.py")
    reasons = {rejected.value: rejected.reason for rejected in choice(made, "image").rejected}
    assert reasons["jax-0.10-cpu"] == "its script in_jax.py is not among the files that are copied"
    assert "pytorch-1.4-pip" not in reasons


def test_any_framework_needs_to_know_the_scripts(blueprint, plan):
    blueprint.replace("framework: pytorch", "framework: any")
    with pytest.raises(CannotPlan, match=r"framework: any needs a workload\.yaml next to train\.py") as caught:
        plan()
    assert caught.value.about == "framework"


def test_a_script_is_not_run_by_a_build_that_it_is_not_for(blueprint, plan):
    (blueprint.path / "train" / "workload.yaml").write_text(WORKLOAD)
    blueprint.replace("framework: pytorch", "framework: tensorflow")
    with pytest.raises(CannotPlan, match=r"workload\.yaml has in_tensorflow\.py for it, not train\.py"):
        plan()


# --- many trainings


def test_trainings_share_what_was_chosen_and_keep_what_is_theirs(blueprint):
    request = request_of(blueprint.service, Inputs())
    other = request.application.model_copy(update={"arguments": (*request.application.arguments, ("seed", "7"))})
    requests = [request, request.model_copy(update={"training": "second", "application": other})]
    model, shared = Measured(allocator_tcmalloc=1.3), {}
    together = [make_plan(request, model=model, shared=shared) for request in requests]
    assert len(shared) == 1
    assert together == [make_plan(request, model=model) for request in requests]
    assert "--seed 7" in together[1].job.script


@pytest.mark.parametrize(
    "part",
    [{"optimisation": {"threads": 2}}, {"resources": {"cores_per_process": 2}}, {"application": {"prepares": True}}],
)
def test_trainings_that_differ_share_nothing(blueprint, part):
    request = request_of(blueprint.service, Inputs())
    update = {name: getattr(request, name).model_copy(update=fields) for name, fields in part.items()}
    shared = {}
    for each in (request, request.model_copy(update=update)):
        assert make_plan(each, shared=shared) == make_plan(each)
    assert len(shared) == 2
