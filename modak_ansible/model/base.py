"""What every model shares."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """An immutable value whose fields are all known."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=False)
