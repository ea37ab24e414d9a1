"""What is known against a build on a target: what its probe said there, or which package nobody has for it."""

from pydantic import Field

from modak_ansible.model.base import Model


class Refusal(Model):
    """One build that was made on a target and failed its probe there, or lacks what a training needs besides."""

    entry: str = Field(description="the catalogue entry")
    entry_digest: str = Field(description="SHA-256 of the entry as it was; another build of that name is tried again")
    architecture: str = Field(description="of the target, as its blueprint names it")
    address: str = Field(description="the target's; another machine tries for itself")
    container: bool | None = Field(
        None, description="whether it was an image, or an environment of the target's own; none: an earlier note"
    )
    processor: str = Field(description="model name, as the kernel gives it")
    reason: str = Field(description="the last telling line of the probe")
    date: str = Field(description="UTC, ISO 8601")
    lacks: str = Field(default="", description="the package that no index of the target's has, as pip is asked for it")
    requirements: tuple[str, ...] = Field(default=(), description="what was asked for when it was missed")
    site: str = Field(
        default="", description="SHA-256 of the target's site then; with other settings it is looked for again"
    )
