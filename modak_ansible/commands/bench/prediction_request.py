"""What the performance model is asked from a command line: a question in a file, or that of a blueprint's plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from modak_ansible.errors import ModakError
from modak_ansible.model.base import first_mistake
from modak_ansible.model.measured.need import Need
from modak_ansible.model.measured.prediction import Gain, Prediction, Question
from modak_ansible.performance import PerformanceModel
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import request_of
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.lists.refusals import known_refusals
from modak_ansible.store.project import blueprint_state, find_blueprint
from modak_ansible.target.core.files import is_file, read_json


def is_question(path: Path) -> bool:
    """Whether a file is a question: JSON that is no request, which says other things."""
    if path.suffix != ".json" or not is_file(path):
        return False
    return {"job", "optimisation", "optimization"}.isdisjoint(read_json(path) or ())


def read_question(path: Path) -> Question:
    """A question in a JSON file.

    Raises:
        ModakError: it cannot be read, or is none; with the field.
    """
    try:
        return Question.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ModakError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise ModakError(f"{path} is not a valid question: {first_mistake(error)}") from error


def planned_question(
    subject: str, inputs: Inputs, training: str | None, model: PerformanceModel
) -> tuple[Question, Need | None]:
    """The question that the plan of a blueprint's training puts for what it takes, and its trace where there is one.

    Raises:
        InvalidBlueprint: with every mistake and its place.
        CannotPlan: there is no plan for it.
    """
    path = find_blueprint(subject)
    recorder = _RecordingModel(model)
    state = blueprint_state(path)
    request = request_of(path, inputs, training)
    make_plan(request, refusals=known_refusals(state), model=recorder)
    if not recorder.questions:
        raise ModakError(f"the plan of {subject} has nothing for the performance model to predict")
    return recorder.questions[0], request.need  # the first candidate is the chosen one


@dataclass
class _RecordingModel:
    """Passes a planner's questions on, and keeps those of its candidates."""

    model: PerformanceModel
    questions: list[Question] = field(default_factory=list)

    def predict(self, question: Question) -> Prediction:
        self.questions.append(question)
        return self.model.predict(question)

    def gain(self, old: Question, new: Question) -> Gain:
        return self.model.gain(old, new)
