"""Models whose parameters ranks share out: they learn what one process learns, in less memory, and are saved whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cluster import thorough
from test_ranks import HERE, run

MODELS, LAYERED, LESS_USUAL = HERE / "models.py", HERE / "layered.py", HERE / "less_usual.py"


def outputs(python: str, script: Path, *arguments: str, world: int = 2, **more: str) -> list[dict]:
    done = run(python, script, *arguments, world=world, **more)
    assert [each.code for each in done] == [0] * world, "\n".join(each.errors for each in done)
    return [json.loads(each.output) for each in done]


@pytest.mark.parametrize("world", [2, *thorough(4)])
def test_models_of_many_kinds_learn_what_one_process_learns(pytorch_python, world):
    alone = outputs(pytorch_python, MODELS, world=1)[0]
    for together in outputs(pytorch_python, MODELS, world=world, MODAK_STRATEGY="fsdp"):
        assert list(together) == list(alone)
        for case, expected in alone.items():
            assert together[case] == pytest.approx(expected, rel=1e-3, abs=2e-5), case


@pytest.mark.parametrize(("strategy", "world"), [("tensor", 2), *thorough(("tensor", 4))])
def test_layers_of_many_kinds_learn_what_one_process_learns(pytorch_python, strategy, world):
    """Five seeds of each, with all that is drawn: the order of sums alone is another one."""
    alone = outputs(pytorch_python, LAYERED, world=1)[0]
    for together in outputs(pytorch_python, LAYERED, world=world, MODAK_STRATEGY=strategy):
        assert len(together) == len(alone) >= 65
        for case, expected in alone.items():
            assert together[case] == pytest.approx(expected, rel=1e-3, abs=2e-5), case


STAGED = ("Mlp", "HeadsAsWritten", "Llama", "Gpt", "Images", "Transformer")
OF_FEW_LAYERS = ("Encoder", "Looked", "Words", "InPlace", "Recomputed", "Recurrent", "Repeated")


@pytest.mark.parametrize(
    ("world", "cases"), [(2, ("Recomputed", "InPlace")), *thorough((2, (*STAGED, *OF_FEW_LAYERS)), (4, STAGED))]
)
def test_stages_of_many_kinds_learn_what_one_process_learns(pytorch_python, world, cases):
    """Five seeds of each, without dropout: stages draw other numbers than one process."""
    alone = outputs(pytorch_python, LAYERED, *cases, world=1, STILL="1")[0]
    for together in outputs(pytorch_python, LAYERED, *cases, world=world, STILL="1", MODAK_STRATEGY="pipeline"):
        assert len(together) == len(alone) == 5 * len(cases)
        for case, expected in alone.items():
            assert together[case] == pytest.approx(expected, rel=1e-3, abs=2e-5), case


@pytest.mark.parametrize(
    ("strategy", "cases"),
    [("fsdp", ("assigned", "in_memory", "opened_by_all")), ("tensor", ("assigned", "in_memory")),
     *thorough(*((strategy, ("in_memory", "packed", "named_by_rank")) for strategy in ("fsdp", "tensor", "pipeline")))],
)  # fmt: skip
def test_loops_of_less_usual_kinds_learn_what_one_process_learns(pytorch_python, tmp_path, strategy, cases):
    more = {"SHARED": str(tmp_path)}
    alone = outputs(pytorch_python, LESS_USUAL, *cases, world=1, **more)[0]
    for together in outputs(pytorch_python, LESS_USUAL, *cases, MODAK_STRATEGY=strategy, **more):
        for case, expected in alone.items():
            assert together[case] == pytest.approx(expected, rel=1e-3, abs=2e-5), case


BY_SAMPLE = ("Mlp", "Images", "Gpt", "Llama", "HeadsAsWritten", "Looked", "InPlace", "Recomputed", "Recurrent")


@pytest.mark.parametrize(
    ("strategy", "script", "cases"),
    [
        ("tensor", LAYERED, ("Mlp", "Images")),
        *thorough(("tensor", LAYERED, BY_SAMPLE), ("pipeline", LAYERED, ("Mlp", "Gpt", "Recomputed"))),
        *thorough(("fsdp", MODELS, ("Gpt",)), ("fsdp", MODELS, ("Images",))),
    ],
)
def test_two_copies_in_two_parts_each_learn_what_one_process_learns(pytorch_python, strategy, script, cases):
    """Batches of 6, 6, 6 and 3 samples, batch norm over the copies, gradients of all that the four ranks read."""
    alone = outputs(pytorch_python, script, *cases, world=1, STILL="1")[0]
    more = {"STILL": "1", "MODAK_STRATEGY": f"{strategy}_2"}
    for together in outputs(pytorch_python, script, *cases, world=4, **more):
        assert list(together) == list(alone)
        assert len(together) == (5 if script is LAYERED else 2) * len(cases)
        for case, expected in alone.items():
            assert together[case] == pytest.approx(expected, rel=1e-3, abs=2e-5), case


@pytest.fixture(scope="module")
def saved_alone(pytorch_python: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """The file that one process saves, and what it says."""
    file = tmp_path_factory.mktemp("saved") / "alone.pt"
    (alone,) = outputs(pytorch_python, MODELS, "save", str(file), world=1)
    return file, alone


@pytest.mark.parametrize("strategy", ["fsdp", "tensor", "pipeline"])
def test_what_ranks_save_is_the_file_of_one_process(pytorch_python, tmp_path, saved_alone, strategy):
    file, alone = saved_alone
    for together in outputs(pytorch_python, MODELS, "save", str(tmp_path / "shared.pt"), MODAK_STRATEGY=strategy):
        assert together["saved"] == pytest.approx(alone["saved"], rel=1e-3, abs=2e-5)
    (same,) = run(pytorch_python, HERE / "same_files.py", str(file), str(tmp_path / "shared.pt"), world=1)
    assert same.code == 0, same.errors


@pytest.mark.parametrize(
    ("how", "strategy", "words"),
    [
        ("layers", "fsdp", "ranks compute different layers of a model"),
        ("layers", "tensor", "ranks compute different layers of a model, or were given other samples"),
        ("odd", "tensor", "Net has no Linear or Embedding that 2 ranks can split"),
        ("few", "pipeline", "Linear has 1 layers with parameters, and 2 ranks need as many at least"),
        *thorough(
            ("complex", "pipeline", "Turned has complex parameters: fsdp or ddp can train it"),
            ("samples", "tensor", "or were given other samples"),
            ("samples", "pipeline", "or were given other samples"),
            ("outside", "fsdp", "uses parameters outside of the call of the layer"),
            ("lbfgs", "fsdp", "LBFGS needs all parameters in one place"),
            ("called", "fsdp", "torch.func.functional_call gives a model other weights"),
            ("model", "fsdp", "cannot be saved as it is: save its state_dict()"),
            ("alone", "fsdp", "every rank has to call torch.save"),
        ),
    ],
)
def test_what_cannot_be_shared_out_is_told(pytorch_python, how, strategy, words):
    more = {"MODAK_STRATEGY": strategy, "MODAK_RENDEZVOUS_TIMEOUT": "10"}
    first, other = run(pytorch_python, HERE / "unfit.py", how, **more)
    assert first.code != 0
    assert other.code != 0
    assert words in first.errors


def test_a_rank_keeps_what_it_frees_where_there_is_room(pytorch_python):
    """The kernel need not give it the same pages again in each step."""
    for strategy in ("fsdp", "tensor", "pipeline"):
        for second, last in outputs(pytorch_python, HERE / "room.py", MODAK_STRATEGY=strategy):
            assert last < second / 4, strategy
    for second, last in outputs(pytorch_python, HERE / "room.py", MODAK_STRATEGY="fsdp", MODAK_MEMORY_LIMIT="1000"):
        assert last > second / 2


@pytest.mark.thorough
def test_a_rank_needs_less_memory_than_one_that_keeps_all(pytorch_python):
    """113 M parameters with AdamW, without room to keep what is freed; the losses of both are the same."""
    peaks, losses = {}, {}
    for strategy in ("ddp", "fsdp", "tensor", "pipeline"):
        first, _ = outputs(pytorch_python, HERE / "large.py", MODAK_STRATEGY=strategy, MODAK_MEMORY_LIMIT="1")
        peaks[strategy], losses[strategy] = first["peak"] - first["import"], first["losses"]
    assert losses["fsdp"] == pytest.approx(losses["ddp"], rel=1e-4)
    assert losses["tensor"] == pytest.approx(losses["ddp"], rel=1e-4)
    assert losses["pipeline"] == pytest.approx(losses["ddp"], rel=1e-4)
    assert peaks["fsdp"] < 0.65 * peaks["ddp"], peaks
    assert peaks["tensor"] < 0.65 * peaks["ddp"], peaks
    assert peaks["pipeline"] < 0.65 * peaks["ddp"], peaks
