"""The options that the planner can set: one .py and one .md each, discovered automatically.

Every module here with a subclass of :class:`~modak_ansible.optimisations.base.Optimisation` takes part in every
plan; the .md of the same name explains what it does, where it applies and what was measured. Its ``properties``
declare what users may set: ``make generate`` writes the TOSCA type, the model and the request's fields from them.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter

from modak_ansible.optimisations.base import Optimisation


@cache
def optimisations() -> tuple[Optimisation, ...]:
    """Every optimisation, each behind those whose outcome it reads."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    kinds = sorted(_kinds(Optimisation), key=lambda kind: kind.name)  # type: ignore[type-abstract]
    by_name = {kind.name: kind() for kind in kinds}
    order = TopologicalSorter({name: optimisation.after for name, optimisation in by_name.items()}).static_order()
    return tuple(by_name[name] for name in order)


def _kinds(parent: type[Optimisation]) -> Iterator[type[Optimisation]]:
    for kind in parent.__subclasses__():
        yield from _kinds(kind)
        if not inspect.isabstract(kind) and hasattr(kind, "name") and kind.__module__.startswith(__name__):
            yield kind
