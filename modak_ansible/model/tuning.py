"""What a job tries before it trains: the configurations that the records cannot tell apart, and for how long."""

from pydantic import Field

from modak_ansible.model.base import Model, Numerics


class TuningCandidate(Model):
    """One configuration of the job, in the chosen image."""

    name: str = Field(pattern="^c[0-9]+$", description="c0 is the plan's own choice")
    title: str = Field(description="what differs from the plan's choice, for people")
    values: dict[str, str] = Field(default={}, description="of every choice, by its name")
    settings: dict[str, str] = Field(default={}, description="of the run, as records have them")
    numerics: Numerics = "same"
    environment: tuple[tuple[str, str], ...] = Field(
        description="all that is set, MODAK_CHOICES and the user's included"
    )
    arguments: tuple[tuple[str, str | bool], ...] = Field(default=(), description="all options of the script")
    threads: int | None = None
    may_win: bool = Field(
        default=True, description="false for the stock run where it is not as asked for: a yardstick only"
    )
    parts: tuple[str, ...] = Field(
        default=(), description="the candidates that it combines; it is tried where each of them was faster"
    )
    is_stock: bool = Field(default=False, description="whether it is what a run without this project would be")
    total_steps: int | None = Field(default=None, ge=1, description="of the whole training, where that is known")
    work_per_step: float = Field(default=1.0, gt=0, description="samples of a step, over those of the plan's choice")


class PlannedTuning(Model):
    """Successive halving inside the job, or, where all go on from rung to rung, turns of the choice and a stock run."""

    candidates: tuple[TuningCandidate, ...] = Field(min_length=2, description="the plan's own choice first")
    budget: int = Field(ge=1, description="seconds that all of it may take")
    steps: int = Field(ge=2, description="of each trial in the first rung")
    first_rung: int = Field(default=0, ge=0, description="trials of it at most, with combinations; 0: one of each")
    reduction: int = Field(ge=1, description="one of so many goes on, for so many times the steps; 1: they take turns")
    rungs: int = Field(ge=1)
    trains: bool = Field(default=True, description="false: the job ends when it is tuned")

    @property
    def alone(self) -> int:
        """How many candidates are no combinations of others."""
        return sum(not candidate.parts for candidate in self.candidates)

    @property
    def steps_of_rungs(self) -> list[int]:
        """Steps of each trial, rung by rung."""
        return [self.steps * self.reduction**rung for rung in range(self.rungs)]
