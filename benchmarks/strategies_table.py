"""Prints what the records of the suite scaling say of a plan's strategies, beside what the law of two ranks predicts.

python benchmarks/strategies_table.py RECORDS.jsonl [ROUND]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import NamedTuple

from modak_ansible.model.distributed import mesh_of
from modak_ansible.model.measured.need import Need, Operator, TracedBlocks, TracedLoop, split_of
from modak_ansible.model.measured.prediction import Interval, Question
from modak_ansible.model.measured.work import Work
from modak_ansible.performance.between import waiting_seconds

ROWS, BLOCKS, FLOAT = 8, 8, 4  # as in scaling/strategies.py
CALLED = 11 * BLOCKS + 2  # operators of its forward pass
LINKS = {"1gbit": "1 Gbit/s", "100mbit": "100 Mbit/s"}
RANKS = (2, 4)


class Key(NamedTuple):
    """What steps are of."""

    strategy: str
    ranks: int
    link: str
    shape: str


class Measured(NamedTuple):
    """What records say: seconds of steps, of the first rank's on a processor and waiting for one, and of the link."""

    steps: dict[Key, list[float]]
    processor: dict[Key, list[float]]
    waited: dict[Key, list[float]]
    probed: dict[tuple[str, str], list[float]]
    collectives: dict[tuple[str, int, str], list[float]]  # by their name, ranks and link


def measured(records: list[dict]) -> Measured:
    """Returns the samples of all rounds together."""
    found = Measured({}, {}, {}, {}, {})
    of_steps = {"step": found.steps, "processor": found.processor, "waited": found.waited}
    for measure in (measure for record in records for measure in record["measures"]):
        about, name = measure["about"], measure["name"]
        if name in of_steps:
            key = Key(about["strategy"], about["ranks"], about["link"], about["shape"])
            of_steps[name].setdefault(key, []).extend(measure["samples"])
        elif name == "collective":
            collective = about["collective"], about["ranks"], about["link"]
            found.collectives.setdefault(collective, []).extend(measure["samples"])
        elif name in ("latency", "bandwidth"):
            found.probed.setdefault((name, about["link"]), []).extend(measure["samples"])
    return found


def need_of(shape: str) -> Need:
    """Returns what a trace tells of the network of a shape: its parameters, blocks, and what ranks can split."""
    width, tokens = (int(word) for word in shape.split() if word.isdigit())
    split, norms, last = 2 * (4 * width * width + 2 * width), 2 * width + 4 * width, width + 1  # of a block
    parameters = FLOAT * (BLOCKS * (split + norms) + last)
    loop = TracedLoop(rows=ROWS, steps=1, tensors={1: parameters}, peaks={1: parameters})
    given = BLOCKS * ROWS * tokens * width * FLOAT
    return Need(
        key="",
        training="strategies",
        parameters=parameters,
        gradients=parameters,
        buffers=0,
        state=0,
        setup=parameters,
        loops=(loop,),
        blocks=(TracedBlocks(kind="Block", count=BLOCKS, saved=0, largest=0, outputs=given),),
        widths={2 * width: FLOAT * BLOCKS * split},
        operators=(Operator(name="any", shapes=(), format="float32", count=3 * CALLED, flop=0, bytes=0),),
        batches=1,
        stages={ranks: FLOAT * (BLOCKS // ranks * (split + norms) + last) for ranks in RANKS},
        framework=0,
        script=0,
        computing=0,
    )


def predicted(found: Measured, key: Key) -> Interval:
    """Returns the seconds of a step by the law, which is told one process's step, and the link of two ranks."""
    mesh, need = mesh_of(key.strategy, key.ranks), need_of(key.shape)
    alone = median(found.steps[Key("none", 1, key.link, key.shape)])
    latency, bandwidth = (median(found.probed[name, key.link]) for name in ("latency", "bandwidth"))
    split = split_of(need, key.ranks, key.strategy) if mesh.is_alike else None
    question = Question(
        framework="pytorch",
        nodes=key.ranks,
        latency=1e6 * latency,
        bandwidth=bandwidth,
        shares_batch=not mesh.is_alike,
        gathers=mesh.shares_out and not mesh.is_alike,
        copies=mesh.copies if mesh.shares_out else 1,
        split=split,
    )
    compute = alone * split.left if split else alone / key.ranks
    run = SimpleNamespace(work=Work(parameters=need.parameters // FLOAT, layers=BLOCKS))
    waits = waiting_seconds(run, question, compute)
    return Interval(**{name: compute + seconds for name, seconds in waits})


def table(found: Measured) -> str:
    """Returns the cells in Markdown, in milliseconds: median, spread; prediction and its error.

    Those of a pipeline have behind it the median without waiting for a core, and the prediction's error of that.
    """
    names = ["link", "network", "strategy", *(f"{ranks} ranks" for ranks in RANKS)]
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    rows = dict.fromkeys((key.link, key.shape, key.strategy) for key in found.steps if key.ranks > 1)
    for link, shape, strategy in sorted(rows, key=lambda row: (list(LINKS).index(row[0]), *row[1:])):
        cells = [cell(found, Key(strategy, ranks, link, shape)) for ranks in RANKS]
        lines.append(f"| {LINKS[link]} | {shape} | `{strategy}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(found: Measured, key: Key) -> str:
    """Returns one cell; empty where it was not measured."""
    if key not in found.steps:
        return ""
    samples, law = found.steps[key], predicted(found, key).middle
    spread = f"{1e3 * median(samples):.0f} ({1e3 * min(samples):.0f} to {1e3 * max(samples):.0f})"
    said = f"{spread}; {1e3 * law:.0f}, {law / median(samples) - 1:+.0%}"
    if key.strategy.startswith("pipeline"):
        own = own_seconds(found, key)
        said += f"; {1e3 * own:.0f}, {law / own - 1:+.0%}"
    return said


def own_seconds(found: Measured, key: Key) -> float:
    """Returns the middle seconds of a step without those in which its first rank waited for a core that others had."""
    return median(step - waited for step, waited in zip(found.steps[key], found.waited[key]))


def main() -> None:
    """Reads the records, and prints the table of one round or of all of them."""
    records = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    print(
        table(
            measured([record for record in records if record["round"] == int(sys.argv[2])] if sys.argv[2:] else records)
        )
    )


if __name__ == "__main__":
    main()
