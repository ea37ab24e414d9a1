"""What ties the trainings of one blueprint together."""

from __future__ import annotations

from pydantic import Field

from modak_ansible.model.base import Model


class Predecessor(Model):
    """A training that has to complete before another begins."""

    training: str = Field(description="its node in the blueprint")
    deployments: tuple[str, ...] = Field(
        default=(), description="of the training, or of each point of its sweep; none before they are planned"
    )
