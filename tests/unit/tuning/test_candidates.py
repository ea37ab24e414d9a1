"""Which configurations a job tries, and where it tries none."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from measured import Measured

from modak_ansible.catalogue.locks import TUNER_REQUIREMENTS
from modak_ansible.errors import CannotPlan
from modak_ansible.model.application import Checkpoint, Resources
from modak_ansible.model.measured.prediction import Gain, Interval
from modak_ansible.planning.configurations import Configurations
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.tuning.candidates import LISTED, MOST, against_stock
from modak_ansible.planning.tuning.tuning import tuning_alone


def titles(made):
    return [candidate.title for candidate in made.tuning.candidates]


def tuning_choice(made):
    return next(choice for choice in made.choices if choice.name == "tuning")


def test_a_plan_without_tuning_has_none(tuned_plan):
    made = tuned_plan(autotuning=False)
    assert made.tuning is None
    assert "tun" not in made.job.script
    assert not any(file.path.startswith("modak_tuner/") for file in made.runtime)
    assert len(made.image.layers) == 2


def test_what_is_not_known_is_tried(tuned_plan):
    made = tuned_plan()
    assert titles(made)[0] == "the plan's choice"
    assert titles(made)[1].startswith("stock: ")
    assert set(titles(made)[2:7]) == {
        "allocator tcmalloc", "huge_pages transparent", "matmul onednn", "threads 2", "threads 1, wait_policy stock",
    }  # fmt: skip
    assert "matmul onednn, allocator tcmalloc" in titles(made)
    assert [candidate.name for candidate in made.tuning.candidates] == [
        f"c{number}" for number in range(len(titles(made)))
    ]


def test_a_candidate_is_a_whole_configuration(tuned_plan):
    made = tuned_plan()
    one = next(
        candidate for candidate in made.tuning.candidates if candidate.title == "matmul onednn, allocator tcmalloc"
    )
    environment = dict(one.environment)
    assert environment["LD_PRELOAD"] == "libtcmalloc_minimal.so.4"
    assert environment["MODAK_CHOICES"] == "matmul=onednn optimizer_step=fused wait_policy=adaptive"
    assert one.settings["allocator"] == "tcmalloc"
    assert one.values["matmul"] == "onednn"
    assert one.numerics == "reassociation"
    assert dict(one.arguments)["batch-size"] == "128"
    assert dict(made.tuning.candidates[0].environment) == made.job.environment


def test_stock_is_compared_with_and_does_not_win_where_it_is_not_safe(tuned_plan):
    stock = tuned_plan().tuning.candidates[1]
    assert not stock.may_win
    assert "wait_policy" not in dict(stock.environment).get("MODAK_CHOICES", "")
    assert "c1)" not in tuned_plan().job.script


def test_stock_is_told_apart_for_the_ratio(tuned_plan):
    made = tuned_plan(Measured(allocator_tcmalloc=1.3), resources={"cores_per_process": 8, "exclusive": True})
    assert [candidate.name for candidate in made.tuning.candidates if candidate.is_stock] == ["c1"]


def test_what_is_known_is_not_tried_again(tuned_plan):
    made = tuned_plan(Measured(allocator_tcmalloc=1.3, matmul_onednn=0.8, spread=0.05))
    found = [candidate for candidate in made.tuning.candidates if candidate.may_win]
    assert [each.title for each in found if not each.parts and "threads" not in each.title] == [
        "the plan's choice", "huge_pages transparent",
    ]  # fmt: skip
    assert all(each.settings["allocator"] == "tcmalloc" and "matmul" not in each.settings for each in found)


def test_what_combines_to_one_candidate_is_named(tuned_plan):
    by_name = {candidate.name: candidate for candidate in tuned_plan().tuning.candidates}
    for candidate in by_name.values():
        parts = [by_name[part] for part in candidate.parts]
        assert not any(part.parts for part in parts)
        for part in parts:
            (change,) = set(part.title.split(", ")) - {"wait_policy stock"}  # which one thread brings along
            assert change in candidate.title.split(", ")


def test_fewer_threads_are_tried_where_results_may_be_summed_in_another_order(tuned_plan):
    made = tuned_plan()
    assert {candidate.threads for candidate in made.tuning.candidates if candidate.may_win} == {1, 2, 4}
    assert next(choice for choice in made.choices if choice.name == "threads").value == "4"
    assert {candidate.threads for candidate in tuned_plan(numerics="same").tuning.candidates if candidate.may_win} == {
        4
    }
    assert {candidate.threads for candidate in tuned_plan(threads=2).tuning.candidates if candidate.may_win} == {2}


def test_preferences_and_numerics_stand(tuned_plan):
    assert all("matmul" not in title for title in titles(tuned_plan(numerics="same")))
    preferenceed = tuned_plan(allocator="tcmalloc").tuning.candidates
    assert all(each.settings.get("allocator") == "tcmalloc" for each in preferenceed if each.may_win)


def test_the_most_promising_come_first(tuned_plan):
    class Unsure(Measured):
        def gain(self, old, new):
            found = super().gain(old, new)
            wide = Interval(middle=found.ratio.middle, low=0.5, high=found.ratio.middle * 2)
            return Gain(ratio=wide, records=1, known=True)

    made = tuned_plan(Unsure(allocator_tcmalloc=1.05, matmul_onednn=1.2, huge_pages_transparent=1.1))
    assert titles(made)[2:5] == ["matmul onednn", "huge_pages transparent", "allocator tcmalloc"]


def test_they_are_never_many_and_always_the_same(tuned_plan):
    changes = {"application": {"prepares": True}, "numerics": "any"}
    made = tuned_plan(**changes)
    assert sum(not candidate.parts for candidate in made.tuning.candidates) == made.tuning.first_rung == MOST
    assert len(made.tuning.candidates) == LISTED
    assert tuned_plan(**changes).tuning == made.tuning
    assert tuned_plan(**changes).digest == made.digest


def test_steps_of_the_whole_training_are_known_where_its_work_is(tuned_plan):
    assert tuned_plan().tuning.candidates[0].total_steps == 2 * 47  # 6000 digits in batches of 128


def test_the_image_gets_what_the_tuner_needs(tuned_plan):
    made = tuned_plan(application={"requirements": ("pillow",)})
    assert "pillow" in made.image.definition
    definition = made.image.definition
    assert f"{TUNER_REQUIREMENTS[0]} --hash=sha256:" in definition
    assert definition.index("--require-hashes") < definition.index(" pillow")
    assert "numpy" not in definition  # PyTorch's image has it, and in its own release
    assert {file.path for file in made.runtime} >= {"modak_tuner/__main__.py", "modak_runtime/__init__.py"}


def test_the_version_is_the_one_that_was_tested(pytestconfig):
    lock = (pytestconfig.rootpath / "requirements" / "modak.txt").read_text()
    assert set(TUNER_REQUIREMENTS) <= {line.split()[0] for line in lock.splitlines()}


def test_tuning_never_takes_more_than_its_share_of_the_walltime(tuned_plan):
    assert tuned_plan(tuning_budget=100).tuning.budget == 100
    assert tuned_plan(tuning_budget=10000).tuning.budget == 450  # of half an hour
    assert tuned_plan(tuning_budget=10000, only_tune=True).tuning.budget == 1620


@pytest.mark.parametrize(("given", "walltime"), [(None, 343), (1000, 343), (200, 200)])
def test_a_job_that_only_tunes_is_as_short_as_its_budget(tuned_request, given, walltime):
    request = tuned_request()
    options = request.job_options.model_copy(update={"wall_time_limit": given})
    resources = request.resources if given is None else Resources()
    asked = {"job_options": options, "resources": resources, "checkpoint": Checkpoint(signal_before_wall=60)}
    made = make_plan(tuning_alone(request.model_copy(update=asked), 200))
    assert "--signal" not in made.job.script  # a minute before its end, the signal ended the search
    assert made.job.walltime == walltime
    assert made.tuning.budget == min(200, int(0.9 * walltime))
    assert (made.name, made.tuning.trains) == ("example-tune", False)


def test_the_plan_says_it(tuned_plan):
    said = tuning_choice(tuned_plan(tuning_budget=100))
    assert said.value == "7 candidates"
    assert "20 to 180 steps" in said.reason
    assert "at most 100 s" in said.reason


def test_where_nothing_is_open_nothing_is_tried(tuned_plan):
    preferences = {"numerics": "same", "allocator": "system", "huge_pages": "none"}
    made = tuned_plan(**preferences)
    assert made.tuning is None
    assert tuning_choice(made).value == "none"
    with pytest.raises(CannotPlan, match="nothing is left to tune") as refused:
        tuned_plan(only_tune=True, **preferences)
    assert refused.value.about == "optimisation.autotuning"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"application": {"version": "1.4"}}, "the tuner needs Python 3.11"),
        ({"application": {"framework": "jax"}}, "nothing counts the steps of a script of jax"),
        ({"application": {"framework": "mxnet"}}, "nothing counts the steps of a script of mxnet"),
        (
            {"resources": {"nodes": 2}, "application": {"distributed_training": True}},
            "a trial is one process, and the job has 2",
        ),
        ({"application": {"command": ("./a.out",), "script": ""}}, "a program that is not a training"),
    ],
)
def test_where_no_trial_can_be_ended_tuning_is_refused(tuned_plan, changes, reason):
    with pytest.raises(CannotPlan, match=reason) as refused:
        tuned_plan(**changes)
    assert refused.value.about == "optimisation.autotuning"
    assert refused.value.hint


def comparison_of(made):
    return next((choice for choice in made.choices if choice.name == "compare_with_stock"), None)


def test_the_choice_is_compared_with_stock_where_that_is_asked(tuned_plan):
    made = tuned_plan(autotuning=False, compare_with_stock=20)
    assert [(each.name, each.is_stock, each.may_win) for each in made.tuning.candidates] == [
        ("c0", False, True),
        ("c1", True, False),
        ("c2", False, True),
    ]
    assert (made.tuning.budget, made.tuning.reduction, made.tuning.trains) == (20, 1, True)
    assert comparison_of(made).value == "20 s"
    assert "optuna" not in made.image.definition  # nothing is searched
    assert "modak_tuner/__main__.py" in {file.path for file in made.runtime}


def test_where_stock_is_faster_it_trains_with_the_threads_of_the_job(tuned_plan):
    made = tuned_plan(Measured(allocator_tcmalloc=1.3), autotuning=False, compare_with_stock=20)
    assert [(each.name, each.is_stock, each.may_win) for each in made.tuning.candidates] == [
        ("c0", False, True),
        ("c1", True, False),  # as many threads as the framework likes
        ("c2", False, True),
    ]
    names = [dict(each.environment).keys() for each in made.tuning.candidates]
    assert [("LD_PRELOAD" in each, "OMP_NUM_THREADS" in each) for each in names] == [
        (True, True),
        (False, False),
        (False, True),
    ]
    assert "stock trains where it is faster" in comparison_of(made).reason
    assert re.search(r"c2\) # .*\n +environment=\(\n +MODAK_TUNED=c2", made.job.script)


def test_where_nothing_may_stand_for_stock_the_choice_trains_all_the_same(tuned_plan, monkeypatch):
    """Such as where what the user preferences wants what stock has not."""

    def refuse(*_):
        raise CannotPlan("optimisation.compiler", "it needs another optimiser", optional=True)

    monkeypatch.setattr(Configurations, "considerate", refuse)
    made = tuned_plan(Measured(allocator_tcmalloc=1.3), autotuning=False, compare_with_stock=20)
    assert [each.may_win for each in made.tuning.candidates] == [True, False]
    assert "stock trains" not in comparison_of(made).reason


def test_tuning_has_the_stock_run_among_its_own(tuned_plan):
    made = tuned_plan(compare_with_stock=20)
    assert made.tuning.reduction == 3
    assert comparison_of(made) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"application": {"framework": "jax"}}, "nothing counts the steps of a script of jax"),
        ({"application": {"command": ("./a.out",), "script": ""}}, "a program that is not a training"),
    ],
)
def test_where_stock_cannot_be_compared_the_plan_says_why_and_goes_on(tuned_plan, changes, reason):
    made = tuned_plan(autotuning=False, compare_with_stock=20, strict=True, **changes)
    assert made.tuning is None
    assert comparison_of(made).value == "none"
    assert reason in comparison_of(made).reason


def test_a_choice_that_is_stock_has_nothing_to_be_compared_with():
    configuration = SimpleNamespace(draft=SimpleNamespace(environment={}, arguments=(), choices={}))
    assert against_stock(SimpleNamespace(best=configuration, stock=configuration)) == ()


def test_trainings_that_share_what_is_chosen_try_it_as_they_are_themselves(tuned_request):
    first, shared = tuned_request(), {}
    own = {"arguments": (*first.application.arguments, ("lr", "0.5")), "environment": (("SEED", "7"),)}
    second = first.model_copy(update={"application": first.application.model_copy(update=own)})
    make_plan(first, shared=shared)
    made = make_plan(second, shared=shared)
    assert len(shared) == 1
    assert {dict(each.arguments)["lr"] for each in made.tuning.candidates} == {"0.5"}
    assert {dict(each.environment)["SEED"] for each in made.tuning.candidates} == {"7"}
    assert made == make_plan(second)


def test_halves_of_a_batch_are_one_step_of_the_optimiser(tuned_plan):
    made = tuned_plan(Measured(), application={"prepares": True}, numerics="any", batch_size="any")
    whole, halves = (
        next(each for each in made.tuning.candidates if each.values["batch_size"] == size) for size in ("keep", "64x2")
    )
    assert (halves.total_steps, halves.work_per_step) == (whole.total_steps, 1.0)
