"""Images that others have, or are to have: pushed, pulled, signed and verified on a target."""

from __future__ import annotations

import re
from typing import TypedDict

from rich.console import Console

from modak_ansible.catalogue import Entry, load_catalogue
from modak_ansible.commands.catalogue.build import request_for, run_image_role
from modak_ansible.commands.options import PlanOptions
from modak_ansible.errors import UsageError
from modak_ansible.model.request import Request
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import request_of
from modak_ansible.reading.blueprint.forms.text_rules import path_problem, place_problem
from modak_ansible.store.project import find_blueprint
from modak_ansible.target.images.image import ImageFacts

_NO_KEY = "name one on the target with --key, or give its site a signing_key"


class Published(TypedDict):
    """What became of an image, as ``--json`` prints it."""

    entry: str
    digest: str  # of what it is made from
    target: str
    changed: bool
    message: str
    image: str  # its path on the target; empty where it is not there
    sha256: str
    names: list[str]  # under which others find it


class Publisher:
    """Has the image of an entry, on the target of a blueprint's first training, and others have it or know whose it is.

    Args:
        entry: its name in the catalogue.
        packages: whether it is the image with those of the training on top.
    """

    def __init__(
        self, entry: str, blueprint: str, asked: PlanOptions, console: Console, *, packages: bool = False
    ) -> None:
        self._entry = load_catalogue().entry(entry)
        self._blueprint = find_blueprint(blueprint)
        self._request = request_of(self._blueprint, asked.all_inputs)
        self._console = console
        self._packages = packages

    def push(self, place: str) -> Published:
        """
        Raises:
            ModakError: it is not on the target, or could not be pushed.
        """
        _check_place(place)
        # what has packages on top is nobody else's, and is found by its digest alone
        plan_tags = [] if self._packages else [tag_of(self._entry, self._request.target.processor.architecture)]
        return self._carry_out("pushed", self._request, image_place=place, image_tags=plan_tags)

    def pull(self, place: str) -> Published:
        """
        Raises:
            ModakError: it is not there, or is not what it should be.
        """
        _check_place(place)
        site = self._request.target.site.model_copy(update={"image_sources": (place,)})
        target = self._request.target.model_copy(update={"site": site})
        return self._carry_out("found", self._request.model_copy(update={"target": target}))

    def sign(self, key: str) -> Published:
        """
        Raises:
            ModakError: it is not on the target, or could not be signed.
        """
        return self._carry_out("signed", self._request, image_key=self._key(key))

    def verify(self, key: str) -> Published:
        """
        Raises:
            ModakError: it is not on the target, is another one, or has no such signature.
        """
        site = self._request.target.site
        return self._carry_out("verified", self._request, image_key=key or site.image_signer or f"{self._key(key)}.pub")

    def _key(self, key: str) -> str:
        chosen = key or self._request.target.site.signing_key
        if not chosen:
            raise UsageError(f"no key is named for {self._entry.name}", hint=_NO_KEY)
        if problem := path_problem(chosen):
            raise UsageError(problem, hint=_NO_KEY)
        return chosen

    def _carry_out(self, state: str, request: Request, **variables: object) -> Published:
        plan = make_plan(request_for(self._entry, request, packages=self._packages))
        answer = run_image_role(plan, self._blueprint, self._console, image_state=state, **variables)
        image = answer.get("image") or ImageFacts()
        return {
            "entry": self._entry.name, "digest": plan.image.digest, "target": request.target.name,
            "changed": bool(answer.get("changed")), "message": answer.get("msg", ""),
            "image": image.get("path", ""), "sha256": image.get("sha256", ""), "names": answer.get("names") or [],
        }  # fmt: skip


def tag_of(entry: Entry, architecture: str) -> str:
    """What an image is called in a registry for people: framework, version, processor and accelerator.

    The digest of what it is made from, which is the other tag, alone tells two of a name apart.
    """
    import archspec.cpu

    microarchitecture = archspec.cpu.TARGETS.get(architecture)
    processor = architecture if entry.libraries or not microarchitecture else microarchitecture.family.name
    words = [entry.framework, entry.version, processor, entry.accelerator or "cpu"]
    words += [] if entry.origin == "pip" else [entry.origin]
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", "-".join(words))[:128]


def _check_place(place: str) -> None:
    if problem := place_problem(place):
        raise UsageError(
            problem,
            hint="such as oras://registry.example/team/images, docker:// of Podman's, or /shared/images on the target",
        )
