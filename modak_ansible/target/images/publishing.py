"""Images for others: pushed to a registry or into a folder, signed, and verified."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from ...errors import ModakError
from ..core.background import Activity
from ..core.container import check_signing_key, find_runtime, public_half, sign_image, verify_image
from ..core.files import Lock, read_json
from ..core.plan import Layer
from ..core.workspace import resolved
from .image import ImageStore
from .places import check_made_from


class PublishedImage(ImageStore):
    """An image of a workspace that others are to have; see :class:`ImageStore`."""

    _activity = ".push"

    def start_push(self, place: str, tags: list[str]) -> bool:
        """Begins to put the image where others find it; False when that is going on already.

        Raises:
            ModakError: it is not here, or not of the kind that others look for.
        """
        layer, image = self._made()
        known = read_json(image.with_suffix(".json")) or {}

        def push(activity: Activity) -> None:
            activity.note(f"pushing {layer['name']} to {place}")
            runtime = find_runtime(self._image["container_runtime"])
            check_made_from(runtime, image, layer)
            for name in self._place(runtime, place, activity).push(image, layer, known, tags):
                activity.tell(name)

        return self.activity.start(push)

    def sign(self, key: str) -> bool:
        """Signs the image with a private key on the target; False where it has that signature.

        Raises:
            ModakError: it is not here, or it cannot be signed.
        """
        layer, image = self._made()
        runtime = find_runtime(self._image["container_runtime"])
        check_signing_key(runtime, key)
        with Lock(self._workspace.images / f".{layer['digest']}.lock"), self._scratch(layer) as scratch:
            with suppress(ModakError):
                verify_image(runtime, image, public_half(resolved(key)))
                return False
            fresh = scratch / image.name
            shutil.copyfile(image, fresh)
            sign_image(runtime, fresh, key)
            self._put(layer, fresh, read_json(image.with_suffix(".json")) or {})
        return True

    def verify(self, public: str) -> None:
        """Tells whether the image is the one that was made, of what the plan says, and who signed it.

        Raises:
            ModakError: it is not here, it is another one, or it has no such signature.
        """
        layer, image = self._made()
        runtime = find_runtime(self._image["container_runtime"])
        check_made_from(runtime, image, layer)
        verify_image(runtime, image, resolved(public))

    def _called(self) -> str:
        """What the command line calls the image."""
        has_packages = self._image["layers"][-1]["name"] == "requirements"
        return f"{self._image['entry']} --packages" if has_packages else self._image["layers"][-1]["name"]

    def _made(self) -> tuple[Layer, Path]:
        layer = self._image["layers"][-1]
        if layer["kind"] != "build":
            what = layer["source"] or "an environment of this machine's own"
            raise ModakError(f"{layer['name']} is {what}, not an image that is built", hint="name what is there itself")
        if self.missing():
            raise ModakError(
                f"the image of {layer['name']} is not on the target", hint=f"modak catalogue build {self._called()}"
            )
        return layer, self._workspace.place(layer["path"])
