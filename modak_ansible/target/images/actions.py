"""What the module modak_image does with the image of a plan, by the names of its actions."""

from __future__ import annotations

import time
from typing import Any, Mapping

from ..core.answer import answered
from ..core.files import changed_at, read_on
from ..core.workspace import Workspace
from ..garbage.uses import Uses
from .image import ImageStore
from .publishing import PublishedImage

ACTIONS = ("look", "start", "wait", "log", "inside", "push", "sign", "verify")

Parameters = Mapping[str, Any]  # of the module


def act(given: Parameters, *, check: bool = False) -> Mapping[str, object]:
    """Does what the module is asked, and gives what it answers.

    Args:
        check: whether nothing may be changed.

    Raises:
        ModakError: it cannot be done.
    """
    store, action = _store_of(given), given["action"]
    if action == "log":
        return _read_log(store, given["offset"], given["seconds"])
    if action == "inside":
        return {"changed": False, "inside": store.look_inside()}
    if isinstance(store, PublishedImage) and action == "sign":
        is_signed = not check and store.sign(given["key"])
        return {"changed": is_signed, "image": store.describe()}
    if isinstance(store, PublishedImage) and action == "verify":
        store.verify(given["key"])
        return {"changed": False, "image": store.describe()}
    started = False
    if isinstance(store, PublishedImage) and action == "push":
        started = store.start_push(given["place"], given["tags"])
    if action == "look" and not check:
        _reserve(given)
        store.check_given(keep=True)
    if action == "start":
        if given["again"] and not check:
            store.forget_refusals()
        store.check()
        if store.missing() and not store.refusal() and not check:
            started = store.start(found_only=given["found_only"])
    if action == "wait":
        store.activity.wait_for_news("line", given["seen"], given["seconds"])
    return {
        "changed": started,
        "started": started,
        "missing": [layer["name"] for layer in store.missing()],
        "altered": store.changed(),
        "refusal": store.refusal(),
        "status": store.activity.status(),
        "image": store.describe(),
    }


def acted(given: Parameters) -> Mapping[str, object]:
    """What the module answers, errors included, for whoever asks without it."""
    return answered(lambda: act(given))


def _store_of(given: Parameters) -> ImageStore:
    kind = PublishedImage if given.get("place") or given["action"] in ("sign", "verify") else ImageStore
    return kind(Workspace(given["workspace"]), given["image"], given["site"], given.get("secrets"))


def _reserve(given: Parameters) -> None:
    """Before the first look: what is there then stays there."""
    paths = [layer["path"] for layer in given["image"]["layers"]]
    Uses(Workspace(given["workspace"])).reserve(given["deployment"], paths)


def _read_log(store: ImageStore, offset: int, seconds: float) -> Mapping[str, object]:
    """What the log holds behind an offset; where that is nothing yet, it is acted for while the build goes on."""
    began = time.monotonic()
    while True:
        status = store.activity.status()
        is_over = status["state"] != "running"
        output, end = read_on(store.activity.log, offset, to_end=is_over)
        if output or is_over or time.monotonic() - began >= seconds:
            changed = changed_at(store.activity.log)
            age = None if changed is None else max(0.0, time.time() - changed)
            return {"changed": False, "output": output, "offset": end, "status": status, "age": age}
        time.sleep(0.5)
