"""Counts what each benchmark's network computes in a step, operator by operator, and writes it into its workload.yaml.

    python benchmarks/trace_networks.py PYTHON

PYTHON is an interpreter with PyTorch and numpy. The benchmarks' own scripts run in it with tensors that have sizes and
no numbers, as `modak trace` runs scripts: nothing is computed, and no machine matters.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from modak_ansible.model.measured.need import Operator, traced_work
from modak_ansible.runtime import FILES

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "standard"))
import networks  # noqa: E402 - of that folder

# The words of each network's script, and how many images a step of it has.
SYNTHETIC = ["--source", "synthetic", "--batch-size", "8", "--images", "16", "--test-images", "8"]
NETWORKS = {
    "mnist_cnn": {"mnist_cnn": (["--data", ".", "--batch-size", "128"], 128)},
    "resnet50": {"resnet50": (SYNTHETIC, 8)},
    "standard": {
        name: (["--model", model, "--size", size], network.batch_size)
        for name, network in networks.NETWORKS.items()
        for model, size in [name.split("-")]
    },
    "architectures": {
        f"{model}-small": (["--model", model, "--epochs", "1", "--images", "128"], 32)
        for model in ("encoder", "decoder", "vit", "rows")  # of lora the trace would see what it learns before
    },
}


def draw_digits(folder: Path, images: int = 1280) -> None:
    """Files as MNIST's, of black images: their sizes are all that a trace sees."""
    for part in ("train", "t10k"):
        head = struct.pack(">4I", 0x803, images, 28, 28)
        folder.joinpath(f"{part}-images-idx3-ubyte").write_bytes(head + bytes(images * 28 * 28))
        folder.joinpath(f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, images) + bytes(images))


def traced(python: str, folder: Path, words: list[str]) -> list[Operator]:
    """The operators of one step of a script.

    Raises:
        RuntimeError: it did not come to its second step.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MODAK", "PYTHON"))}
    with tempfile.TemporaryDirectory() as here:
        draw_digits(Path(here))
        report = Path(here, "applied.json")
        ours = {"PYTHONPATH": str(FILES), "MODAK_TRACE": "memory", "MODAK_APPLIED": str(report)}
        command = [python, str(folder / "pytorch.py"), "--metrics", f"{here}/metrics.json", *words]
        done = subprocess.run(command, env=kept | ours, cwd=here, capture_output=True, text=True, check=False)
        try:
            rows = json.loads(report.read_text())["memory"]["operators"]
        except (OSError, ValueError, KeyError):
            rows = None
        if not rows:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr[-6000:]}")
        return [Operator.model_validate(row) for row in rows]


def main() -> None:
    """Traces all of them; what stands before ``traced`` in a workload.yaml stays as it is."""
    for workload, trained in NETWORKS.items():
        path = HERE / workload / "workload.yaml"
        lines = []
        for network, (words, images) in trained.items():
            work = traced_work(traced(sys.argv[1], path.parent, words), images)
            told = work.model_dump(mode="json", exclude_defaults=True)
            rows = told.pop("operators")
            lines += [f"  {network}:\n", "    operators:\n", *(f"      - {json.dumps(row)}\n" for row in rows)]
            lines += [f"    {name}: {json.dumps(value)}\n" for name, value in told.items()]
            print(network, f"{len(work.operators)} kinds of operators in {work.calls} calls")
        text = path.read_text(encoding="utf-8").partition("# GFLOP")[0]
        note = (
            "# GFLOP, GB and GFLOP of convolutions of a step for each image, of operators with like FLOP a byte;\n"
            "# a step's calls; and the seconds of kernels beyond their rooflines for each image, in any run, and\n"
            "# besides with some switches: by trace_networks.py\n"
        )
        path.write_text(f"{text}{note}traced:\n{''.join(lines)}", encoding="utf-8")


if __name__ == "__main__":
    main()
