"""modak model: fits the performance model to records, and shows what it knows."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.options import NOTHING_ASKED, Json, PlanOptions, check_file, group, print_json, takes
from modak_ansible.errors import UsageError, nearest
from modak_ansible.store.project import MODEL, state_folder

if TYPE_CHECKING:
    from modak_ansible.performance import PerformanceModel

app = group(
    "model", "Fit the performance model to records. Show, explain and check its predictions.",
    no_args_is_help=True,
)  # fmt: skip
_SHOWN = 8  # workloads
Records = Annotated[
    list[Path] | None,
    typer.Option("--records", metavar="FILE", help="A record file. Default: the shipped ones and the project's."),
]
ModelFile = Annotated[
    Path | None, typer.Option("--model", metavar="FILE", help="Default: the project's, or else the shipped one.")
]


@app.command(epilog="Example: modak model fit --records measured.jsonl --output model.json")
def fit(
    records: Records = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The model file to write. Default: .modak/model.json.")
    ] = None,
    shipped: Annotated[
        bool, typer.Option("--shipped", help="Use only the shipped records, to which the shipped model is fitted.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fit the model to every measured run: the shipped ones, the project's suites, and its jobs.

    Only runs that were simply measured count. The file is written whole or not at all; the project's plans use it.
    """
    from modak_ansible.measuring.refitting import files_of_records, fit_files
    from modak_ansible.model.quantities import counted, some_of
    from modak_ansible.performance.stored import write_stored

    if records and shipped:
        raise UsageError("--records and --shipped both say which records", hint="leave one of them out")
    check_file("--output", output, "model.json")
    state = state_folder(Path.cwd())
    files = records or files_of_records(None if shipped else state)
    stored = fit_files(files)
    path = output or state / MODEL
    write_stored(stored, path)
    facts = {"model": str(path), "records": stored.records, "records_digest": stored.records_digest}
    workloads = some_of(list(stored.workloads), _SHOWN)
    if as_json:
        print_json(facts)
    else:
        typer.echo(
            f"{path}: fitted to {stored.records} measured trainings ({workloads}) of {counted(len(files), 'file')}"
        )


@app.command(epilog="Example: modak model show --part start")
def show(
    model: ModelFile = None,
    part: Annotated[
        str, typer.Option(help="switches, or all coefficients of one part: step, start, first_step, evaluation.")
    ] = "switches",
    as_json: Json = False,
) -> None:
    """Show what the model has learned: factors on the seconds with 90 % intervals, and the runs behind them.

    Below 1 is faster. For switches, it shows what they do where they were measured.
    """
    from modak_ansible.commands.bench.model_text import print_coefficients
    from modak_ansible.performance.explaining import coefficients, switch_effects

    loaded_model = _model(model)
    valid = {"switches", *loaded_model.regressions}
    if part not in valid:
        raise UsageError(f"the model has no part {part}", hint=nearest(part, valid))
    rows = switch_effects(loaded_model) if part == "switches" else coefficients(loaded_model, part)
    if as_json:
        print_json([{**asdict(row), "factor": row.factor.model_dump()} for row in rows])
        return
    print_coefficients(rows, f"{loaded_model.stored.records} trainings: {part}")


@app.command(epilog="Example: modak model explain mnist-pytorch-slurm")
@takes("inputs", "value", "on", "training")
def explain(
    subject: Annotated[
        str, typer.Argument(metavar="BLUEPRINT|QUESTION", help="A blueprint, or a question in a JSON file.")
    ],
    asked: PlanOptions = NOTHING_ASKED,
    model: ModelFile = None,
    as_json: Json = False,
) -> None:
    """Explain a prediction: what each factor of the configuration does to the seconds.

    For a blueprint, it is the configuration that its plan chooses.
    """
    from modak_ansible.commands.bench.model_text import print_explanation
    from modak_ansible.commands.bench.prediction_request import is_question, planned_question, read_question
    from modak_ansible.performance.explaining import explain as explained

    loaded_model = _model(model)
    if is_question(path := Path(subject)):
        question, need = read_question(path), None
    else:
        question, need = planned_question(subject, asked.all_inputs, asked.training, loaded_model)
    explanation = explained(loaded_model, question, need)
    if not as_json:
        print_explanation(explanation)
        return
    numbers = {name: getattr(explanation, name) for name in ("step", "ideal", "peak")}
    parts = [
        {
            "part": contribution.part,
            "name": contribution.name,
            "factor": contribution.factor.model_dump(),
            "records": contribution.records,
        }
        for contribution in explanation.contributions
    ]
    prediction = explanation.prediction.model_dump()
    whole = {"question": question.model_dump(), "prediction": prediction, **numbers, "contributions": parts}
    print_json({**whole, "operators": [asdict(operator) for operator in explanation.operators]})


@app.command(epilog="Example: modak model validate --plots figures")
def validate(
    records: Records = None,
    plots: Annotated[Path | None, typer.Option(file_okay=False, help="A folder for plots, as PNG and SVG.")] = None,
    as_json: Json = False,
) -> None:
    """Cross-validate the model: leave configurations, workloads and machines out of the fit, and predict them.

    Regret is the time of the configuration that the model would choose from a fully measured table, divided by the time
    of the best one there. Nothing is changed.
    """
    from modak_ansible.commands.bench.model_text import print_validation
    from modak_ansible.measuring.refitting import files_of_records, read_all, works
    from modak_ansible.model.quantities import counted
    from modak_ansible.performance.fit.plots import write_plots
    from modak_ansible.performance.fit.validation import TITLES
    from modak_ansible.performance.fit.validation import validate as validated

    all_records = read_all(records or files_of_records(state_folder(Path.cwd())))
    validation = validated(all_records, works(), lambda text: typer.echo(text, err=True))
    drawn = write_plots(validation, plots) if plots else []
    if as_json:
        errors = {kind: validation.error(kind) for kind in TITLES}
        coverage = {kind: validation.coverage(kind) for kind in TITLES}
        short = {"workload_left_out": validation.regret("workload"), "in_sample": validation.regret("")}
        regret = {name: asdict(value) if value else None for name, value in short.items()}
        facts = {"mean_error": errors, "coverage": coverage, "regret": regret, "figures": [str(path) for path in drawn]}
        print_json({**facts, **asdict(validation)})
        return
    print_validation(validation, TITLES)
    if drawn:
        typer.echo(f"{counted(len(drawn), 'figure')} in {plots}")


def _model(path: Path | None) -> PerformanceModel:
    from modak_ansible.performance import load_model
    from modak_ansible.planning.service import own_model

    return load_model(path or own_model(state_folder(Path.cwd())))
