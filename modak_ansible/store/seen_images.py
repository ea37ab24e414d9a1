"""What a project knows of images of its users' own: .modak/images.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from modak_ansible.errors import ModakError
from modak_ansible.model.base import Model
from modak_ansible.model.measured.seen_image import SeenImage
from modak_ansible.model.request import GivenImage
from modak_ansible.target.core.files import Lock, write_json

_FILE = "images.json"


class _Known(Model):
    schema_version: Literal["modak.images/1"] = "modak.images/1"
    images: tuple[SeenImage, ...] = ()


def seen_images(state: Path) -> tuple[SeenImage, ...]:
    """What was looked into before.

    Args:
        state: the state folder of a project.

    Raises:
        ModakError: the file is damaged.
    """
    path = state / _FILE
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        return _Known(**data).images
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, ValidationError) as error:
        hint = "remove it: images are then looked into once more"
        raise ModakError(f"{path}, what is known of images, cannot be read", hint=hint) from error


def seen_of(known: tuple[SeenImage, ...], image: GivenImage, address: str) -> SeenImage | None:
    """What is known of an image on a target; None where nobody has looked into it, or its checksum is another."""
    found = next((each for each in known if _is_same(each, image.source, image.python, address)), None)
    return found if found and image.checksum in (None, "", found.sha256) else None


def note_image(state: Path, seen: SeenImage) -> None:
    """Remembers an image in the place of what was under its name on that target before.

    Raises:
        ModakError: the file is damaged.
    """
    _replace(state, seen.source, seen.python, seen.address, (seen,))


def forget_image(state: Path, source: str, python: str, address: str) -> None:
    """Has an image looked into again.

    Raises:
        ModakError: the file is damaged.
    """
    _replace(state, source, python, address, ())


def _replace(state: Path, source: str, python: str, address: str, new: tuple[SeenImage, ...]) -> None:
    with Lock(state / f".{_FILE}.lock"):
        others = [each for each in seen_images(state) if not _is_same(each, source, python, address)]
        ordered = sorted((*others, *new), key=lambda each: (each.source, each.python, each.address))
        write_json(state / _FILE, _Known(images=tuple(ordered)).model_dump(mode="json"))


def _is_same(seen: SeenImage, source: str, python: str, address: str) -> bool:
    return (seen.source, seen.python, seen.address) == (source, python, address)
