"""What a project knows of images of its users' own: .modak/images.json."""

from __future__ import annotations

from pathlib import Path

from modak_ansible.errors import ModakError
from modak_ansible.model.measured.seen_image import LOOK, SeenImage
from modak_ansible.model.request import GivenImage
from modak_ansible.store.lists.kept_list import KeptList


def _key(image: SeenImage) -> tuple[str, str, str]:
    return image.source, image.python, image.address


_IMAGES = KeptList(
    SeenImage,
    "images",
    _key,
    lambda path: ModakError(
        f"{path}, the record of inspected images, cannot be read", hint="remove it: images are then inspected again"
    ),
)
seen_images, note_image = _IMAGES.read, _IMAGES.put


def seen_of(images: tuple[SeenImage, ...], image: GivenImage, address: str) -> SeenImage | None:
    """What is known of an image on a target; None where nobody has looked into it, not for all that counts
    today, or its checksum is another."""
    key = (image.source, image.python, address)
    seen_image = next((item for item in images if _key(item) == key), None)
    return (
        seen_image
        if seen_image and seen_image.look == LOOK and image.checksum in (None, "", seen_image.sha256)
        else None
    )


def forget_image(state: Path, source: str, python: str, address: str) -> None:
    """Has an image looked into again."""
    _IMAGES.forget(state, lambda image: _key(image) == (source, python, address))
