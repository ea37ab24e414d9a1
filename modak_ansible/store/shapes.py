"""Whether what was read of a file has the shape that it is written with, and what of it has; without pydantic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

from modak_ansible.target.core.files import read_json

# Shapes that are of no account, and whose modules are slow to import.
_UNSEEN = {"TargetFacts": Any, "ImageFacts": Any}

T = TypeVar("T")


@cache
def fits(shape: Any) -> Callable[[Any], bool]:
    """What tells whether a value of JSON has the shape that it is written with: a TypedDict, or what may stand in one.

    JSON has one kind of number; what stands beside the fields of a TypedDict is not looked at.
    """
    origin, inner = get_origin(shape), get_args(shape)
    if shape is Any:
        return lambda _: True
    if types := _plain(shape):
        return lambda value: type(value) in types
    if origin in (Union, UnionType):
        checks = tuple(map(fits, inner))
        return lambda value: any(check(value) for check in checks)
    if origin is dict:
        all_values_fit = _all_fit(inner[1])
        return lambda value: isinstance(value, dict) and all_values_fit(value.values())
    if origin is list:
        all_items_fit = _all_fit(inner[0])
        return lambda value: isinstance(value, list) and all_items_fit(value)
    if origin is tuple:
        checks = tuple(map(fits, inner))
        return lambda value: (
            isinstance(value, list)
            and len(value) == len(checks)
            and all(check(item) for check, item in zip(checks, value, strict=True))
        )
    return _fields_fit(shape)


def _plain(shape: Any) -> frozenset[type]:
    """The types of JSON that a value may have where nothing is in it; none where there may be."""
    origin, inner = get_origin(shape), get_args(shape)
    if origin in (Union, UnionType):
        plain_types = [_plain(kind) for kind in inner]
        return frozenset[type]().union(*plain_types) if all(plain_types) else frozenset()
    if shape is Any or origin or is_typeddict(shape):
        return frozenset()
    return frozenset((int, float)) if shape in (int, float) else frozenset((shape,))


def _all_fit(shape: Any) -> Callable[[Iterable[Any]], bool]:
    """The same of many values: plans hold thousands."""
    if types := _plain(shape):
        return lambda values: types.issuperset(map(type, values))
    item_fits = fits(shape)
    return lambda values: shape is Any or all(map(item_fits, values))


def _fields_fit(shape: Any) -> Callable[[Any], bool]:
    kinds = {key: kind for key, kind in get_type_hints(shape, localns=_UNSEEN).items() if kind is not Any}
    plain = [(key, types) for key, kind in kinds.items() if (types := _plain(kind))]
    checks = [(key, fits(kind)) for key, kind in kinds.items() if not _plain(kind)]
    required = shape.__required_keys__

    def fit(value: Any) -> bool:
        if not isinstance(value, dict) or not required <= value.keys():
            return False
        for key, types in plain:
            if key in value and type(value[key]) not in types:
                return False
        return all(check(value[key]) for key, check in checks if key in value)

    return fit


def read_whole(path: Path, shape: type[T]) -> T | None:
    """What a file holds; None where it is missing, or has not the shape that it is written with."""
    value = read_json(path)
    return cast(T, value) if fits(cast(Any, shape))(value) else None


def fitted(value: Any, shape: type[T], lost: list[str], place: str = "") -> T:
    """What was read of a file, without what has not the shape that it is written with: anybody may have written there.

    Args:
        lost: is given the places of what is left out, such as ``job.nodes``.
        place: of the value itself.

    Raises:
        ValueError: nothing of it fits.
    """
    kind: Any = shape
    if fits(kind)(value):
        return cast(T, value)
    origin, inner = get_origin(kind), get_args(kind)
    kept: Any = {}
    if origin in (Union, UnionType) and isinstance(value, dict):
        return cast(T, fitted(value, next(member for member in inner if member is not type(None)), lost, place))
    if origin is list and isinstance(value, list):
        kept = [item for item in value if fits(inner[0])(item)]
        lost += [place] if kept else []  # of nothing that fits whoever asks says the place
    elif isinstance(value, dict) and (origin is dict or is_typeddict(kind)):
        kinds = {} if origin else get_type_hints(kind, localns=_UNSEEN)
        for key, item in value.items():
            item_place, item_lost = f"{place}.{key}" if place else key, list[str]()
            try:
                kept[key] = fitted(item, inner[1] if origin else kinds.get(key, Any), item_lost, item_place)
            except ValueError:
                item_lost = [item_place]
            lost += item_lost
    if not kept or (is_typeddict(kind) and not kind.__required_keys__ <= kept.keys()):
        raise ValueError(place)
    return cast(T, kept)
