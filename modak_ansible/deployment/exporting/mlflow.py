"""MLflow's store of files: an experiment a blueprint, in it a folder a run, with a file a parameter and a metric."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping

from modak_ansible.deployment.exporting.exported import Exported, Folders

# Of a name of a parameter or a metric; the rest of its letters becomes _.
_ODD = re.compile(r"[^A-Za-z0-9_.\- :/]")
_LONGEST = 6000
_RUNNING, _FINISHED, _FAILED = 1, 3, 4


def folders(run: Exported) -> Folders:
    """One, in that of its experiment."""
    identity = run.identity[:32]
    return {f"{_experiment(run)}/{identity}": _files(run, _experiment(run), identity)}


def beside(run: Exported) -> dict[str, bytes]:
    """The file of the experiment, which its runs share."""
    experiment = _experiment(run)
    about = {
        "artifact_location": f"./{experiment}",
        "creation_time": 0,
        "experiment_id": experiment,
        "last_update_time": 0,
        "lifecycle_stage": "active",
        "name": run.project,
    }
    return {f"{experiment}/meta.yaml": _yaml(about)}


def _experiment(run: Exported) -> str:
    return str(int(hashlib.sha256(run.project.encode()).hexdigest()[:14], 16))


def _files(run: Exported, experiment: str, identity: str) -> dict[str, bytes]:
    state = _FINISHED if run.run.state == "COMPLETED" else _FAILED if run.is_over else _RUNNING
    name = run.run.training
    about: dict[str, object] = {
        "artifact_uri": f"./{experiment}/{identity}/artifacts",
        "end_time": int(run.ended * 1000) if run.ended and run.is_over else None,
        "entry_point_name": "",
        "experiment_id": experiment,
        "lifecycle_stage": "active",
        "run_id": identity,
        "run_name": name,
        "run_uuid": identity,
        "source_name": "",
        "source_type": 4,
        "source_version": "",
        "start_time": int(run.began * 1000),
        "status": state,
        "tags": [],
        "user_id": "",
    }
    # what lacks one of these folders is no run to it
    files = {"meta.yaml": _yaml(about), "artifacts/": b"", "params/": b"", "metrics/": b"", "tags/": b""}
    tags = {
        "mlflow.runName": name, "modak.deployment": run.run.deployment, "modak.plan": run.digest,
        "modak.state": run.run.state,
    }  # fmt: skip
    files |= {f"tags/{tag}": value.encode() for tag, value in tags.items()}
    parameters = _names(run.run.given)
    files |= {f"params/{parameters[key]}": value[:_LONGEST].encode() for key, value in run.run.given.items()}
    lines: dict[str, list[str]] = {}
    for metric, step, time, value in run.points():
        lines.setdefault(metric, []).append(f"{int(time * 1000)} {value!r} {step}\n")
    metrics = _names(lines)
    return files | {f"metrics/{metrics[key]}": "".join(line).encode() for key, line in lines.items()}


def _names(keys: Iterable[str]) -> dict[str, str]:
    """Names as MLflow takes them, each another: they are files, and a slash in one makes a folder where none stands."""
    names_by_key = {key: _name(key) for key in keys}
    names = list(names_by_key.values())
    is_flat = len(set(names)) < len(names) or any(name.startswith(f"{other}/") for name in names for other in names)
    flat_names: set[str] = set()
    for key, name in names_by_key.items() if is_flat else ():
        flat = name.replace("/", ".")
        while flat in flat_names:
            flat += "_"
        flat_names.add(flat)
        names_by_key[key] = flat
    return names_by_key


def _name(key: str) -> str:
    parts = [part if part.strip(".") else "_" for part in _ODD.sub("_", key).split("/")]
    return "/".join(parts)


def _yaml(about: Mapping[str, object]) -> bytes:
    """JSON of a line a key is YAML, too."""
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in about.items()).encode()
