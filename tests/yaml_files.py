"""Files of YAML by which tests are collected: read once, and by libyaml, in a tenth of the time that Python takes."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def read(path: Path) -> Any:
    return yaml.load(path.read_text(), _Loader)
