"""Matters of the script's own code: what there is for each framework, and by what it gets to the script."""

from __future__ import annotations

import pytest
from traced import need

from modak_ansible.errors import CannotPlan
from modak_ansible.model.distributed import Distributed
from modak_ansible.model.measured.need import Operator
from modak_ansible.model.measured.workload import Workload, WorkloadScript
from modak_ansible.model.target import Accelerator, Partition
from modak_ansible.planning.plan import make_plan

from .conftest import matter, values, why_not

NO_PREPARE = "the script does not call prepare; one line would let it: see docs/prepare.md"
PREPARES = {"prepares": True}
SWITCHES = {
    "memory_format": ("contiguous", "channels_last"),
    "compiler": ("none", "inductor"),
    "precision": ("fp32", "bf16"),
    "input": ("memory", "loader"),
    "step_loop": ("plain", "whole"),
}
WORKLOAD = Workload(
    name="work",
    title="Work",
    kind="training",
    scripts=(
        WorkloadScript(framework="pytorch", script="train.py", switches=SWITCHES),
        WorkloadScript(
            framework="tensorflow", versions=">=2.16", script="other.py", switches={"compiler": ("none", "xla")}
        ),
    ),
)
SWITCHED = {"workload": WORKLOAD}


def options(name, made):
    return matter(name).options(made)


# --- how a choice gets there


@pytest.mark.parametrize(("shape", "serves"), [((8, 3, 3, 3), True), ((8, 3, 3), False), (None, False)])
def test_channels_last_is_of_use_where_a_trace_has_convolutions_of_images(draft, shape, serves):
    made = draft(application={"prepares": True})
    said = {"name": "convolution", "shapes": [shape], "format": "float32", "count": 1, "flop": 1, "bytes": 1}
    found = need().model_copy(update={"operators": (Operator.model_validate(said),) if shape else ()})
    made.request = made.request.model_copy(update={"need": found})
    assert why_not(matter("memory_format").options(made), "channels_last") == (
        "" if serves else "a step of it, as traced, has no two-dimensional convolution"
    )


def test_nothing_gets_to_a_script_that_calls_no_prepare(draft):
    for name in ("compiler", "memory_format", "input"):
        found = options(name, draft())
        assert len(values(found)) == 1
        assert {each.why_not for each in found[1:]} == {NO_PREPARE}


def test_prepare_lets_choices_act(draft):
    made = draft(application=PREPARES)
    matter("memory_format").apply(made, "channels_last")
    matter("compiler").apply(made, "inductor")
    assert made.choices == {"memory_format": "channels_last", "compiler": "inductor"}
    assert made.settings == made.choices
    assert made.options == {}


def test_switches_of_its_own_go_before_prepare(draft):
    made = draft(application={**SWITCHED, **PREPARES})
    matter("memory_format").apply(made, "channels_last")
    assert made.options == {"memory-format": "channels_last"}
    assert made.choices == {}
    assert made.settings == {"memory_format": "channels_last"}


def test_the_users_own_argument_fixes_the_value(draft):
    made = draft(application={**SWITCHED, "arguments": (("memory-format", "channels_last"),)})
    first, second = options("memory_format", made)
    assert (first.value, first.reason) == ("channels_last", "the script's own argument")
    assert second.why_not == "the script's own argument overrides it"
    matter("memory_format").apply(made, "channels_last")
    assert made.options == {}
    assert made.question().settings["memory_format"] == "channels_last"


def test_the_model_is_told_what_the_script_does_by_itself(draft):
    made = draft(application=SWITCHED)
    assert made.question().settings["input"] == "memory"
    matter("input").apply(made, "loader")
    assert made.question().settings["input"] == "loader"
    assert "input" not in draft().question().settings


def test_a_script_that_has_its_samples_in_memory_makes_no_loader_of_them(draft):
    """A run of it that was slower than the records had a loader promise a gain, of which nothing was measured."""
    assert matter("input").default(draft(application=SWITCHED)).value == "memory"
    assert matter("input").default(draft()) is None
    large = draft().request.application.work.model_copy(update={"samples": 10**6, "sample_bytes": 10**6})
    assert matter("input").default(draft(application={**SWITCHED, "work": large}, resources={"memory": 10**9})) is None


@pytest.mark.parametrize("entry", ["pytorch-1.4-pip", "mxnet-1.6-pip", "cntk-2.7-pip", "tensorflow-1.14-pip"])
def test_nothing_acts_in_an_old_python(draft, entry):
    made = draft(entry, application=PREPARES)
    for name in ("compiler", "memory_format", "precision", "matmul", "input", "workers", "step_loop"):
        found = options(name, made)
        assert values(found[1:]) == []


def test_nothing_acts_in_an_image_that_the_user_gives(draft):
    made = draft(entry="", application=PREPARES)
    for name in ("compiler", "memory_format", "matmul"):
        assert values(options(name, made)[1:]) == []


# --- each matter


def test_compilers_are_those_that_the_build_carries(draft):
    assert values(options("compiler", draft(application=PREPARES))) == ["none", "inductor"]
    keras = options("compiler", draft("keras-3.15-tensorflow-cpu"))
    assert values(keras) == ["default", "none", "xla"]
    assert options("compiler", draft("jax-0.10-cpu")) == ()
    asked = options("compiler", draft(compiler="xla"))
    assert why_not(asked, "xla").startswith("pytorch-2.13-cpu does not include xla; jax-0.10-cpu")


def test_ngraph_is_the_scripts_own_matter(draft):
    found = options("compiler", draft("tensorflow-1.14-ngraph-pip"))
    assert why_not(found, "ngraph") == "the script itself switches it on"
    assert why_not(options("compiler", draft("pytorch-1.4-glow")), "glow").startswith("GLOW compiles what was trained")


@pytest.mark.parametrize(
    ("entry", "stock", "reason"),
    [
        ("tensorflow-2.21-cpu", "channels_last", "tensorflow computes with the channels last on processors"),
        ("mxnet-1.6-pip", "contiguous", "mxnet does not have it on processors"),
        ("pytorch-1.4-pip", "contiguous", "PyTorch has it from 1.5 on"),
    ],
)
def test_memory_formats_are_the_frameworks(draft, entry, stock, reason):
    first, second = options("memory_format", draft(entry))
    assert (first.value, second.why_not) == (stock, reason)


def test_matrix_products_need_no_line(draft):
    first, second = options("matmul", draft())
    assert (first.value, second.value, second.why_not, second.numerics) == ("default", "onednn", "", "reassociation")
    assert why_not(options("matmul", draft("tensorflow-2.21-cpu")), "onednn") == "tensorflow chooses its library itself"
    assert (
        why_not(options("matmul", draft("pytorch-1.4-pip")), "onednn") == "PyTorch can choose the library from 2.9 on"
    )


@pytest.mark.parametrize(
    ("processor", "reason"),
    [
        ({"architecture": "zen5"}, ""),
        ({"architecture": "sapphirerapids"}, ""),
        ({"architecture": "neoverse_v1"}, ""),
        ({"architecture": "skylake_avx512"}, "skylake_avx512 has no bf16, and would emulate it slowly"),
        ({"architecture": "x86_64_v4", "features": ("avx512_bf16",)}, ""),
        ({"architecture": "x86_64_v4"}, "x86_64_v4 does not say whether the processor has bf16"),
    ],
)
def test_bf16_needs_a_processor_that_has_it(draft, processor, reason):
    found = why_not(options("precision", draft(application=PREPARES, processor=processor)), "bf16")
    assert found.startswith(reason)
    assert bool(found) == bool(reason)


def test_formats_of_accelerators(draft):
    found = options("precision", draft(application=PREPARES))
    assert why_not(found, "tf32") == "it needs an NVIDIA accelerator"
    gpu = draft("pytorch-2.13-cuda", application=PREPARES, resources={"accelerators": 1})
    assert values(options("precision", gpu)) == ["fp32", "tf32", "bf16"]
    assert why_not(options("precision", gpu), "fp16").startswith("its losses have to be scaled")
    assert all(option.numerics == "any" for option in options("precision", gpu)[1:])


@pytest.mark.parametrize(
    ("gflop", "model", "numerics", "operator", "taken"),
    [
        (24.0, "NVIDIA H100 80GB HBM3", "any", "convolution", ("bf16", "channels_last")),
        (24.0, "a100_80gb", "any", "convolution", ("bf16", "channels_last")),
        (24.0, "a100", "reassociation", "convolution", (None, "channels_last")),
        (24.0, "NVIDIA A100-SXM4-80GB", "any", "mm", ("bf16", None)),
        (24.0, "NVIDIA L40S", "same", "convolution", (None, None)),
        (24.0, "Tesla V100-SXM2-32GB", "any", "convolution", (None, None)),
        (24.0, "NVIDIA A2", "any", "convolution", (None, None)),
        (24.0, None, "any", "convolution", (None, None)),
        (1.0, "NVIDIA H100", "any", "convolution", (None, None)),
        (None, "NVIDIA H100", "any", "convolution", (None, None)),
    ],
)  # fmt: skip
def test_large_steps_on_an_accelerator_take_what_was_fast_there(draft, gflop, model, numerics, operator, taken):
    work = draft().request.application.work.model_copy(update={"gflop_per_sample": gflop, "batch_size": 96})
    made = draft(
        "pytorch-2.13-cuda", application={**PREPARES, "work": work}, resources={"accelerators": 1},
        target={"accelerator": Accelerator(count=1, vendor="nvidia", model=model)}, numerics=numerics,
    )  # fmt: skip
    seen = Operator(name=operator, shapes=((96, 3, 8, 8),), format="float32", count=1, flop=1, bytes=1)
    made.request = made.request.model_copy(update={"need": need().model_copy(update={"operators": (seen,)})})
    found = [matter(name).default(made) for name in ("precision", "memory_format")]
    assert tuple(each and each.value for each in found) == taken


def test_large_steps_on_a_processor_are_left_to_records(draft):
    work = draft().request.application.work.model_copy(update={"gflop_per_sample": 24.0, "batch_size": 96})
    made = draft(application={**PREPARES, "work": work}, numerics="any")
    assert matter("precision").default(made) is None


def test_samples_that_do_not_fit_are_not_kept(draft):
    large = {"work": draft().request.application.work.model_copy(update={"samples": 10**6, "sample_bytes": 10**5})}
    made = draft(application={**PREPARES, **large}, resources={"memory": 16 * 10**9})
    assert why_not(options("input", made), "memory") == "the samples are more than a quarter of the node's memory"
    assert values(options("input", draft(application=PREPARES))) == ["stock", "memory"]


def test_samples_are_kept_by_each_process_of_a_node_of_the_partition(draft):
    work = draft().request.application.work.model_copy(update={"samples": 1000, "sample_bytes": 10**6})
    made = draft(application={**PREPARES, "work": work}, resources={"memory": None}, processor={"memory": 8 * 10**9})
    for memory, processes, reason in (
        (None, 1, ""),
        (None, 3, "the samples of 3 processes are more than a quarter of the node's memory"),
        (10**9, 1, "the samples are more than a quarter of the node's memory"),
    ):
        made.partition = Partition(name="batch", memory=memory)
        made.layout = made.layout._replace(processes_per_node=processes)
        assert why_not(options("input", made), "memory") == reason


def test_stock_input_is_the_switchs_first_value(draft):
    made = draft(application=SWITCHED, input="stock")
    assert matter("input").wish(made) == "memory"


def test_workers(draft):
    assert values(options("workers", draft(application=PREPARES))) == ["stock", "2", "3"]
    assert values(options("workers", draft(application=PREPARES, resources={"cores_per_process": 1}))) == ["stock"]
    made = draft(application=PREPARES, workers=0)
    assert values(options("workers", made)) == ["stock", "0"]
    assert matter("workers").wish(made) == "0"
    matter("input").apply(made, "memory")
    unasked = draft(application=PREPARES)
    matter("input").apply(unasked, "memory")
    assert values(options("workers", unasked)) == ["stock"]


def test_a_whole_step_is_compiled_in_pytorch(draft):
    made = draft(application=SWITCHED)
    assert why_not(options("step_loop", made), "whole") == "it is compiled, and needs the compiler inductor"
    matter("compiler").apply(made, "inductor")
    assert values(options("step_loop", made)) == ["plain", "whole"]
    assert options("step_loop", draft(application=PREPARES)) == ()


def test_another_batch_has_to_be_permitted(draft):
    assert values(options("batch_size", draft())) == ["keep"]
    with pytest.raises(CannotPlan, match="another batch size changes results") as caught:
        options("batch_size", draft(batch_size="any"))
    assert caught.value.about == "optimisation.batch_size"


def test_other_batches_are_arguments_or_choices(draft):
    made = draft(application=PREPARES, batch_size="any", numerics="any")
    assert values(options("batch_size", made)) == ["keep", "256", "512", "64x2"]
    matter("batch_size").apply(made, "256")
    assert made.options == {"batch-size": "256"}
    assert made.question().work.batch_size == 256
    halves = draft(application=PREPARES, batch_size="any", numerics="any")
    matter("batch_size").apply(halves, "64x2")
    assert halves.choices == {"accumulation": "2", "batch_size": "64"}


def test_a_plan_appends_switches_and_keeps_the_rest(draft):
    made = draft(application={**SWITCHED, "arguments": (("epochs", "2"), ("quiet", True), ("no", False))})
    request = made.request.model_copy(
        update={
            "optimisation": made.request.optimisation.model_copy(
                update={"memory_format": "channels_last", "numerics": "any"}
            )
        }
    )
    script = make_plan(request).job.script
    assert "    --epochs 2\n    --quiet\n    --memory-format channels_last\n" in script
    assert "--no\n" not in script


def test_a_plan_tells_the_runtime_its_choices_in_one_line(draft):
    request = draft(application=PREPARES, memory_format="channels_last", matmul="onednn", numerics="any").request
    made = make_plan(request)
    assert (
        "    MODAK_CHOICES='matmul=onednn memory_format=channels_last optimizer_step=fused wait_policy=adaptive'\n"
        in (made.job.script)
    )


def test_tf_data_is_left_untuned_where_keras_uses_it(draft):
    made = draft("tensorflow-2.21-cpu")
    assert values(options("pipeline_tuning", made)) == ["stock", "off"]
    matter("pipeline_tuning").apply(made, "off")
    assert made.choices == made.settings == {"pipeline_tuning": "off"}
    assert values(options("pipeline_tuning", draft("keras-3.15-tensorflow-cpu"))) == ["stock", "off"]
    assert why_not(options("pipeline_tuning", draft("keras-3.15-jax-cpu")), "off").startswith("Keras on jax takes")
    assert options("pipeline_tuning", draft("pytorch-2.13-cpu")) == ()
    taken = {
        entry: matter("pipeline_tuning").default(draft(entry))
        for entry in ("tensorflow-2.21-cpu", "keras-3.15-tensorflow-cpu", "keras-3.15-jax-cpu", "tensorflow-2.1-pip")
    }
    assert [default.value if default else None for default in taken.values()] == ["off", "off", None, None]
    assert values(options("pipeline_tuning", draft("tensorflow-2.1-pip"))) == ["stock"]


# --- a state in files


def test_a_state_in_files_is_only_taken_where_it_is_asked_for(draft):
    made = draft(application=PREPARES, memory="out-of-core")
    assert values(options("memory", made)) == ["fits", "recomputed", "out-of-core"]
    matter("memory").apply(made, "out-of-core")
    assert (made.choices["memory"], made.uses_scratch) == ("out-of-core", True)
    matter("memory").apply(made, "fits")
    assert made.uses_scratch is False
    assert options("memory", draft("tensorflow-2.21-cpu", memory="fits")) == ()
    assert options("memory", draft(application=PREPARES)) == ()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"resources": {"accelerators": 1}}, "an accelerator's memory"),
        ({"resources": {"nodes": 2}}, "parallel ranks exchange"),
        ({"application": {**PREPARES, "work": {"parameters": 10**9}}}, "the state may take 16 GB"),
    ],
)
def test_what_cannot_lie_in_files(draft, changed, reason):
    work = draft().request.application.work
    if parameters := changed.get("application", {}).get("work"):
        changed["application"]["work"] = work.model_copy(update=parameters)
    scratch = draft().request.target.scratch
    made = draft(
        **{"application": PREPARES, "memory": "out-of-core", **changed},
        target={"scratch": scratch.model_copy(update={"room": 10**9})},
    )
    assert why_not(options("memory", made), "out-of-core").startswith(reason)


def test_a_state_in_files_leaves_the_allocator_that_gives_memory_back(draft):
    made = draft(application=PREPARES, memory="out-of-core")
    matter("memory").apply(made, "out-of-core")
    assert why_not(options("allocator", made), "tcmalloc").startswith("memory freed by training out of core")


def test_a_compiled_model_does_not_lie_in_files(draft):
    made = draft(application=PREPARES, memory="out-of-core")
    matter("compiler").apply(made, "inductor")
    assert "compiled" in why_not(options("memory", made), "out-of-core")


# --- the steps of optimisers


def test_fused_steps_are_good_practice_where_the_order_of_sums_is_free(draft):
    found = draft("pytorch-2.13-cpu", numerics="reassociation")
    assert values(options("optimizer_step", found)) == ["default", "fused"]
    assert matter("optimizer_step").default(found).value == "fused"
    matter("optimizer_step").apply(found, "fused")
    assert found.choices == {"optimizer_step": "fused"}
    assert matter("optimizer_step").default(draft("pytorch-2.13-cpu", numerics="same")) is None


@pytest.mark.parametrize(
    ("entry", "change", "reason"),
    [
        ("pytorch-1.4-pip", {}, "from 2.4 on"),
        ("pytorch-2.13-cuda", {"resources": {"accelerators": 1}}, "on accelerators"),
        ("", {}, "the given image has not been inspected yet"),
    ],
)
def test_fused_steps_are_refused_where_nothing_has_them(draft, entry, change, reason):
    found = draft(entry, numerics="any", **change)
    assert reason in why_not(options("optimizer_step", found), "fused")
    assert matter("optimizer_step").default(found) is None


def test_a_training_out_of_core_takes_each_step_by_itself(draft):
    found = draft("pytorch-2.13-cpu", numerics="any")
    found.settings["memory"] = "out-of-core"
    assert "out of core" in why_not(options("optimizer_step", found), "fused")


def test_ranks_with_parts_have_no_fused_steps(draft):
    together = {**PREPARES, "distributed": Distributed(strategy="fsdp")}
    found = draft("pytorch-2.13-cpu", application=together, resources={"nodes": 2}, numerics="any")
    assert "a rank of fsdp" in why_not(options("optimizer_step", found), "fused")


def test_other_frameworks_have_no_fused_steps(draft):
    found = draft("keras-3.15-tensorflow-cpu", numerics="any")
    assert values(options("optimizer_step", found)) == ["default"]
    assert why_not(options("optimizer_step", found), "fused") == "keras has its own"
    assert matter("optimizer_step").default(found) is None


@pytest.mark.parametrize(
    ("there", "called"),
    [({"vendor": "nvidia", "model": "NVIDIA A100"}, "NVIDIA A100"), ({"vendor": "amd"}, "amd"), ({}, "accelerator")],
)
def test_an_accelerator_is_asked_for_by_what_is_known_of_it(draft, there, called):
    place = {"accelerator": Accelerator(count=1, **there)}
    assert draft(resources={"accelerators": 1}, target=place).question().accelerator == called
    assert draft(target=place).question().accelerator == ""
