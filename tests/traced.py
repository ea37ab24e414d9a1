"""A trace of a training's need of memory, of round numbers."""

from __future__ import annotations

from modak_ansible.model.measured.need import Need

MIB, GIB = 1 << 20, 1 << 30


def need(evaluates: int = 0, *, repeats: bool = True, key: str = "key") -> Need:
    """Of a model of 100 MiB with Adam, in batches of 64."""
    loops = [{"rows": 64, "steps": 7, "peaks": {"8": 600 * MIB, "2": 1200 * MIB, "1": 2000 * MIB}}]
    loops += [{"rows": 256, "steps": 0, "peaks": {"1": evaluates}}] if evaluates else []
    block = {"kind": "Block", "count": 9, "saved": 900 * MIB, "largest": 100 * MIB, "outputs": 90 * MIB}
    return Need.model_validate(
        {
            "key": key,
            "training": "train",
            "parameters": 100 * MIB,
            "gradients": 100 * MIB,
            "buffers": 0,
            "state": 200 * MIB,
            "setup": 100 * MIB,
            "loops": [{**loop, "tensors": loop["peaks"]} for loop in loops],
            "blocks": [block] if repeats else [],
            "units": [20 * MIB] * 5,
            "framework": 250 * MIB,
            "script": 20 * MIB,
            "computing": 30 * MIB,
        }
    )
