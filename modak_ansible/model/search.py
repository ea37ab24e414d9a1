"""What of a training's arguments is searched for, and what makes one trial better than another."""

import hashlib
import json
from typing import Literal

from pydantic import Field

from modak_ansible.model.application import Application
from modak_ansible.model.base import Model

Value = str | bool


class Dimension(Model):
    """An argument, and where its value lies: among choices, or between two numbers."""

    name: str
    choices: tuple[Value, ...] = Field(default=(), description="empty where it is a number of a range")
    low: float = 0.0
    high: float = 0.0
    log: bool = Field(default=False, description="whether orders of magnitude are alike")
    step: float | None = Field(default=None, description="None for any number of the range; whole numbers then by 1")
    is_whole: bool = False

    @property
    def words(self) -> str:
        """As people read it: ``lr (0.0001 to 0.1, log)``."""
        if self.choices:
            return f"{self.name} ({', '.join(str(choice) for choice in self.choices)})"
        form = ".0f" if self.is_whole else "g"
        suffix = ", log" if self.log else f", step {self.step:{form}}" if self.step else ""
        return f"{self.name} ({self.low:{form}} to {self.high:{form}}{suffix})"


class Search(Model):
    """A study: trials of a training, each with other values, of which those before tell where to look."""

    trials: int = Field(ge=1)
    over: tuple[Dimension, ...]
    objective: str = Field(description="the name of a number that the training writes")
    rising: bool = Field(description="whether more of it is better")
    sampler: Literal["tpe", "random"] = "tpe"
    prune: Literal["median", "none"] = "none"
    seed: int = 0

    @property
    def words(self) -> str:
        """As people read it."""
        pruning = f", pruned by the {self.prune}" if self.prune != "none" else ""
        best = f"the {'highest' if self.rising else 'lowest'} {self.objective}"
        return f"{self.trials} trials for {best} over {', '.join(parameter.words for parameter in self.over)}{pruning}"

    def key(self, application: Application) -> str:
        """What tells this study from others: what is searched, and for what training. More trials go on with it."""
        study = self.model_dump(exclude={"trials", "prune"})
        training = application.model_dump(mode="json", exclude={"arguments", "work", "words"})
        varied_names = {parameter.name for parameter in self.over}
        usual: list[object] = [argument for argument in application.arguments if argument[0] not in varied_names]
        usual += [word for word in application.words if word.partition("=")[0] not in varied_names]  # as hydra has them
        return hashlib.sha256(json.dumps([study, training, usual], sort_keys=True).encode()).hexdigest()[:12]
