"""What a job tries before it trains: the configurations that the records cannot tell apart, and for how long."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from modak_ansible.model.base import Model


class TuningCandidate(Model):
    """One configuration of the job, in the chosen image."""

    name: str = Field(pattern="^c[0-9]+$", description="c0 is the plan's own choice")
    title: str = Field(description="what differs from the plan's choice, for people")
    values: dict[str, str] = Field(default={}, description="of every choice, by its name")
    settings: dict[str, str] = Field(default={}, description="what differs from the stock run, as records have it")
    numerics: Literal["same", "reassociation", "any"] = "same"
    environment: tuple[tuple[str, str], ...] = Field(
        description="all that is set, MODAK_CHOICES and the user's included"
    )
    arguments: tuple[tuple[str, str | bool], ...] = Field(default=(), description="all options of the script")
    threads: int | None = None
    may_win: bool = Field(default=True, description="false for the stock run where it breaks a wish: a yardstick only")
    total_steps: int | None = Field(default=None, ge=1, description="of the whole training, where that is known")
    work_per_step: float = Field(default=1.0, gt=0, description="samples of a step, over those of the plan's choice")


class PlannedTuning(Model):
    """Successive halving inside the job."""

    candidates: tuple[TuningCandidate, ...] = Field(min_length=2, description="the plan's own choice first")
    budget: int = Field(ge=1, description="seconds that all of it may take")
    steps: int = Field(ge=2, description="of each trial in the first rung")
    reduction: int = Field(ge=2, description="one of so many goes on, for so many times the steps")
    rungs: int = Field(ge=1)
    trains: bool = Field(default=True, description="false: the job ends when it is tuned")
