"""The image that a request names itself."""

from __future__ import annotations

import re

from modak_ansible.model.request import GivenImage
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.forms import FieldProblem
from modak_ansible.reading.requests.checks import APPLICATION
from modak_ansible.reading.requests.form.notes import Notes
from modak_ansible.target.core.container import IMAGE_ENDINGS, RUNTIMES

_HUB_IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._/-]*(:[A-Za-z0-9._-]+)?(@sha256:[0-9a-f]{64})?", re.ASCII)


def given_image(named: str | None, notes: Notes) -> GivenImage | None:
    """The image that container_runtime names; None where it names none.

    In the first MODAK the field held the image that was found for the request.
    """
    path = (*APPLICATION, "container_runtime")
    if named is None or named in RUNTIMES:
        return None
    source = named if "://" in named or named.endswith(IMAGE_ENDINGS) else f"docker://{named}"
    if not _is_image(source):
        hint = f"{', '.join(RUNTIMES)}, or an image such as tensorflow/tensorflow:2.21.0 or /images/mine.sif"
        notes.refuse(
            path, FieldProblem("image-source", f"{rules.shown(named)} is neither a runtime nor an image", hint)
        )
        return None
    return GivenImage(source=source)


def _is_image(source: str) -> bool:
    scheme, separator, rest = source.partition("://")
    if separator:
        return scheme in ("docker", "oras", "library") and _HUB_IMAGE.fullmatch(rest) is not None
    return rules.path_problem(source) == ""
