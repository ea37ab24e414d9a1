"""How jobs are, for who asks without a playbook: read from an archive with what it runs and what is asked.

It stands in for the module modak_job where nothing is changed, and so is called for in the same words.
"""

from __future__ import annotations

import base64
import io
import json
import marshal
import sys
import zipfile
from importlib.util import MAGIC_NUMBER
from typing import Any, Mapping
from zipimport import zipimporter

from ..core.answer import answered
from .actions import act

# What the answer's line begins with: shells say other things when they start, and may end them without a new line.
ANSWER = "modak-answer "
COMPILED = "modak-compiled "
UNCHECKED = (1).to_bytes(4, "little") + bytes(8)  # of compiled code that stands for its source, whatever the times are


def tell(arguments: Mapping[str, Any], compiled_for: str) -> None:
    """Prints what the module modak_job would answer to ``query``.

    Args:
        compiled_for: the number of the Python whose compiled code came along, in hexadecimal digits. Where this is
            another one, its own is printed, too, for the next time.
    """
    print(f"\n{ANSWER}" + json.dumps(answered(lambda: act("query", arguments))))  # noqa: T201 - whoever asked reads it
    if compiled_for != MAGIC_NUMBER.hex():
        print(COMPILED + base64.b64encode(_compiled()).decode())  # noqa: T201


def _compiled() -> bytes:
    """An archive of the code of all that was imported from the archive that this is read from."""
    made = io.BytesIO()
    package = __name__.partition(".")[0]
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, module in sorted(sys.modules.items()):
            loader = getattr(module, "__loader__", None)
            if name.partition(".")[0] == package and isinstance(loader, zipimporter):
                code = marshal.dumps(loader.get_code(name))
                file = name.replace(".", "/") + ("/__init__.pyc" if hasattr(module, "__path__") else ".pyc")
                archive.writestr(file, MAGIC_NUMBER + UNCHECKED + code)
    return made.getvalue()
