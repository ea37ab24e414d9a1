"""Lists that a project keeps in its state folder: a JSON file each, which commands at the same time may add to."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from modak_ansible.errors import ModakError
from modak_ansible.model.base import Model
from modak_ansible.target.core.files import Lock, write_json

T = TypeVar("T", bound=Model)


class KeptList(Generic[T]):
    """A list, ordered by a key that each of its items has for itself.

    Args:
        kind: of its items.
        name: of the list; its file is name.json.
        key: what makes an item take the place of an earlier one.
        damaged: the error for a file that cannot be read.
    """

    def __init__(
        self, kind: type[T], name: str, key: Callable[[T], tuple[str, ...]], damaged: Callable[[Path], ModakError]
    ) -> None:
        self._kind = kind
        self._name, self._key, self._damaged = name, key, damaged
        self._schema = f"modak.{name}/1"

    @cached_property
    def _items(self) -> TypeAdapter[tuple[T, ...]]:
        return TypeAdapter(tuple[self._kind, ...])  # type: ignore[name-defined]

    def read(self, state: Path) -> tuple[T, ...]:
        """What is in it; nothing where there is no file.

        Raises:
            ModakError: the file is damaged.
        """
        path = state / f"{self._name}.json"
        try:
            data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if data.get("schema_version") != self._schema:
                raise ValueError(self._schema)
            return self._items.validate_python(data[self._name])
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, LookupError, AttributeError) as error:
            raise self._damaged(path) from error

    def put(self, state: Path, new: T) -> None:
        """Adds an item, in the place of an earlier one with its key.

        Raises:
            ModakError: the file is damaged.
        """
        self._replace(state, lambda item: self._key(item) == self._key(new), (new,))

    def forget(self, state: Path, is_meant: Callable[[T], bool]) -> None:
        """Takes items out.

        Raises:
            ModakError: the file is damaged.
        """
        self._replace(state, is_meant, ())

    def _replace(self, state: Path, is_meant: Callable[[T], bool], new: tuple[T, ...]) -> None:
        with Lock(state / f".{self._name}.json.lock"):
            items = self.read(state)
            kept = [item for item in items if not is_meant(item)]
            if new or len(kept) < len(items):
                updated = sorted((*kept, *new), key=self._key)
                data = self._items.dump_python(tuple(updated), mode="json")
                write_json(state / f"{self._name}.json", {"schema_version": self._schema, self._name: data})
