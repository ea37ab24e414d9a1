"""What every model shares."""

from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Numerics = Literal["same", "reassociation", "any"]  # how far results may move from those of stock
NUMERICS: tuple[Numerics, ...] = get_args(Numerics)


class Model(BaseModel):
    """An immutable value whose fields are all known."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=False)


def left_out(default: Any, description: str, **options: Any) -> Any:
    """A field that is left out where it is empty: plans and entries without it keep the digest that they had before."""
    return Field(default=default, description=description, exclude_if=lambda value: not value, **options)


def first_mistake(error: ValidationError) -> str:
    """The first of what is wrong, behind the field that it is in."""
    first = error.errors()[0]
    path = ".".join(map(str, first["loc"]))
    return f"{path}: {first['msg']}" if path else first["msg"]
