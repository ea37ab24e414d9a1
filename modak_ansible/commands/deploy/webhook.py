"""What a chat is told at the end: one request with JSON, by a template for each kind of service."""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from modak_ansible.deployment.comparison import Comparison, compare
from modak_ansible.errors import ModakError, UsageError, harmless, nearest
from modak_ansible.model.quantities import format_seconds
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.target.images.registry import NoRedirect
from modak_ansible.transport.secrets import Webhook, read_secrets

TEMPLATES = Path(__file__).parent / "webhooks"
_PATIENCE = 10  # seconds
_LONGEST, _WIDTH = 1000, 24  # characters of a text, and of a curve
_BARS = "▁▂▃▄▅▆▇█"


def webhook_of(name: str) -> Webhook:
    """
    Raises:
        UsageError: there is none of that name, or none of its kind is known.
        ModakError: the secrets cannot be read.
    """
    webhooks = read_secrets().webhooks
    if name not in webhooks:
        hint = (
            nearest(name, webhooks)
            or "webhooks: { NAME: { kind: slack, url: ADDRESS } } in ~/.config/modak/secrets.yaml"
        )
        raise UsageError(f"there is no webhook {name}", hint=hint)
    kinds = [path.stem for path in TEMPLATES.glob("*.json")]
    if webhooks[name].kind not in kinds:
        raise UsageError(
            f"the webhook {name} is of no kind {webhooks[name].kind}", hint=nearest(webhooks[name].kind, kinds)
        )
    return webhooks[name]


def tell(webhook: Webhook, stores: Sequence[DeploymentStore], error: BaseException | None, seconds: float) -> str:
    """Tells of an end; gives why that failed, or nothing."""
    try:
        title, text = message_of(stores, error, seconds)
    except (LookupError, TypeError, ValueError) as broken:  # what is kept here may be damaged, and the end is told
        title, text = f"modak: {'failed' if error else 'completed'}", f"its record is damaged: {broken}"
    return post(webhook, title, text, is_good=error is None)


def message_of(stores: Sequence[DeploymentStore], error: BaseException | None, seconds: float) -> tuple[str, str]:
    """Title and text of what is told of deployments at their end.

    Args:
        stores: as far as they came to anything.
        error: what ended the command; None where all went well.
        seconds: how long it took.
    """
    plans = [store.plan for store in stores if store.plan]
    name = str(plans[0]["name"]) if plans else "modak"
    states = Counter(str(store.job.get("state") or "not submitted").lower() for store in stores)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    outcome = "completed" if error is None else "failed"
    title = f"{name}: {outcome}" if len(stores) < 2 else f"{name}: {outcome} ({counts})"
    targets = dict.fromkeys(str(plan["target"]["name"]) for plan in plans)
    lines = [", ".join([*targets, format_seconds(seconds)])]
    lines += _best(stores)
    lines += [harmless(error.message if isinstance(error, ModakError) else str(error))] if error else []
    return title, "\n".join(lines)[:_LONGEST]


def _best(stores: Sequence[DeploymentStore]) -> list[str]:
    """The best number so far, with whose it is, and its curve."""
    try:
        comparison = compare(stores)
    except ModakError:
        return []
    run = comparison.runs[0]
    best = comparison.best(run)
    if best is None:
        return []
    whose = f": {comparison.label(run)}" if len(stores) > 1 else ""
    return [f"best {comparison.by} {best[1]:.4g}{whose}", *_curve(comparison)]


def _curve(comparison: Comparison) -> list[str]:
    curve = comparison.runs[0].curve(comparison.by)
    values = [value for value in curve.points.values() if math.isfinite(value)] if curve else []
    if len(values) < 3 or max(values) == min(values):
        return []
    stride = max(1, math.ceil(len(values) / _WIDTH))
    low, high = min(values), max(values)
    bars = (_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in values[::stride])
    return [f"{comparison.by} {''.join(bars)}"]


def post(webhook: Webhook, title: str, text: str, *, is_good: bool) -> str:
    """Tells a service; gives why it could not be told, or nothing. No word of its address is in that."""
    template = json.loads((TEMPLATES / f"{webhook.kind}.json").read_text(encoding="utf-8"))
    address = urlsplit(webhook.url)
    above, _, last = address.path.rstrip("/").rpartition("/")
    values = {"title": title, "text": text, "last": last, "tag": "white_check_mark" if is_good else "x"}
    for old, new in template.get("escaped", {}).items():
        values = {name: value.replace(old, new) for name, value in values.items()}
    url = urlunsplit(address._replace(path=above or "/")) if template.get("above") else webhook.url
    data = json.dumps(_filled(template["body"], values)).encode()
    try:
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method="POST")  # noqa: S310
        with urllib.request.build_opener(NoRedirect).open(request, timeout=_PATIENCE):
            return ""
    except urllib.error.HTTPError as error:
        return f"it answers {error.code}"
    except urllib.error.URLError as error:
        if isinstance(error.reason, str):  # urllib's own, which holds no address
            return error.reason
        return str(getattr(error.reason, "strerror", None) or type(error.reason).__name__)
    except (OSError, HTTPException, ValueError) as error:  # whose texts may hold the address
        return "it did not answer in time" if isinstance(error, TimeoutError) else type(error).__name__


def _filled(body: Any, values: Mapping[str, str]) -> Any:
    """A template's value with what stands in braces replaced, once."""
    if isinstance(body, dict):
        return {name: _filled(value, values) for name, value in body.items()}
    if isinstance(body, list):
        return [_filled(value, values) for value in body]
    return body.format_map(values) if isinstance(body, str) else body
