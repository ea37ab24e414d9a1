"""What Torque's commands print as XML.

Servers of before 2015 write the values of a job's environment as they are, with characters that XML has not
(https://github.com/adaptivecomputing/torque/issues/318).
"""

from __future__ import annotations

import re
from typing import Dict, List

# Raw, or by their numbers: all below a space but tab and the ends of lines, and what is no character at all.
_NOT_XML = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]"
    "|&#(?:x0*(?:[0-8bcef]|1[0-9a-f])|0*(?:[0-8]|1[124-9]|2[0-9]|3[01]));",
    re.IGNORECASE,
)


def read_elements(text: str, tag: str) -> List[Dict[str, str]]:
    """The values of each element of a name, by the names of what is in it.

    Raises:
        ValueError: it is no XML.
    """
    from xml.etree import ElementTree  # noqa: PLC0415 - what plans a job needs none

    try:
        root = ElementTree.fromstring(_NOT_XML.sub("?", text))  # noqa: S314 - printed by the site's own server
    except ElementTree.ParseError as error:
        raise ValueError(f"broken XML: {error}") from error
    return [{child.tag: child.text or "" for child in element} for element in root.iter(tag)]
