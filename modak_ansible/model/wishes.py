"""Wishes that cannot be kept: a request goes on without them, and the plan says so."""

from __future__ import annotations

from modak_ansible.errors import CannotPlan
from modak_ansible.model.base import Model
from modak_ansible.model.request import Request

_SECTIONS = ("optimisation", "job_options")


def without(request: Request, problem: CannotPlan) -> Request | None:
    """The request without the wish that a problem is about; None where it is about none, and has to be mended."""
    section, _, name = problem.about.partition(".")
    if not problem.wish or section not in _SECTIONS:
        return None
    wishes: Model = getattr(request, section)
    field = type(wishes).model_fields.get(name)
    if field is None or getattr(wishes, name) == field.default:
        return None
    return request.model_copy(update={section: wishes.model_copy(update={name: field.default})})
