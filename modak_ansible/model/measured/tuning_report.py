"""What became of the configurations that a job tried before it trained, as its tuner reports it."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from modak_ansible.model.base import Model


class TriedCandidate(Model):
    """What became of a candidate."""

    title: str
    settings: dict[str, str] = {}
    outcome: Literal["untried", "measured", "out"]
    reason: str = ""


class TuningTrial(Model):
    """One trial, as the tuner noted it."""

    candidate: str
    rung: int = Field(ge=1)
    position: int = Field(ge=1, description="place in the order of all")
    asked: int = Field(description="steps")
    seconds: float = Field(description="of the whole trial")
    steps: dict[str, Any] | None = Field(default=None, description="as applied.json has them")
    score: float | None = Field(default=None, description="seconds: of the whole training, else of a steady step")
    reason: str = Field(default="", description="why nothing was measured")
    report: dict[str, Any] = Field(default={}, description="what else the process said of itself")

    def seconds_of(self, name: str) -> float | None:
        """One of the steps' numbers, such as median; None where there is none."""
        value = (self.steps or {}).get(f"{name}_seconds")
        return float(value) if isinstance(value, int | float) else None


class TuningReport(Model):
    """A job's tuning.json."""

    schema_version: Literal["modak.tuning/1"] = Field(alias="schema")
    state: Literal["running", "finished", "stopped", "failed"]
    reason: str = Field(description="why it ended")
    date: str = Field(description="when it began, UTC, ISO 8601")
    hostname: str
    busy: float = Field(default=0.25, description="cores by which neighbours of trials that are compared may differ")
    budget: float = Field(description="seconds")
    spent: float = Field(description="seconds")
    best: str = Field(description="the candidate that trains; empty where none was measured, and the plan's own does")
    best_rung: int | None = None
    candidates: dict[str, TriedCandidate]
    trials: tuple[TuningTrial, ...]

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        names = {trial.candidate for trial in self.trials} | ({self.best} if self.best else set())
        if not names <= set(self.candidates):
            raise ValueError("it names candidates that it does not tell")
        return self
