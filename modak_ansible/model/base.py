"""What every model shares."""

from pydantic import BaseModel, ConfigDict, ValidationError


class Model(BaseModel):
    """An immutable value whose fields are all known."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=False)


def first_mistake(error: ValidationError) -> str:
    """The first of what is wrong, behind the field that it is in."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"]
