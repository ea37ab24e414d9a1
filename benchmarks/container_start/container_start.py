"""Measures how long a container takes to start: the command true in each image, and outside of any.

It starts containers itself, so it runs natively, not in one (in a suite: container none). In a job it takes the
images of the workspace in which the job's folder lies.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import machine
from arguments import give_up, number
from measures import Measures, measuring_parser, timed

RUNTIMES = ("apptainer", "singularity")
WORKSPACE_IMAGES = Path("../../../images")  # a job runs in deployments/NAME/code


def images_of(folder: Path) -> list[Path]:
    """Returns the images in a folder, the smallest first: a start may depend on the size."""
    return sorted(folder.glob("*.sif"), key=lambda path: (path.stat().st_size, path.name))


def start(command: list[str]) -> None:
    """Runs a command to its end.

    Raises:
        RuntimeError: it failed; the text is the last line that it said.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"{command[0]} ended with {done.returncode}")


def main() -> None:
    """Measures and writes the measures; an image that does not start does not keep the others from it."""
    parser = measuring_parser(__doc__.splitlines()[0], samples=7)
    parser.add_argument(
        "--image", metavar="FILE", type=Path, action="append", help="repeatable (default: those of the workspace)"
    )
    parser.add_argument(
        "--seconds",
        metavar="N",
        type=number(float, 0),
        default=30,
        help="begin with no further image after so many (default: %(default)s)",
    )
    arguments = parser.parse_args()
    if "SINGULARITY_NAME" in os.environ:
        give_up(2, "this is a container already; run it natively")
    runtime = next(filter(None, map(shutil.which, RUNTIMES)), None)
    if runtime is None:
        give_up(2, f"{' or '.join(RUNTIMES)} is not on the PATH")
    images = arguments.image or images_of(WORKSPACE_IMAGES)
    if not images:
        give_up(2, f"no image in {WORKSPACE_IMAGES.resolve()}; name one with --image")
    version = subprocess.run([runtime, "--version"], capture_output=True, text=True, check=False).stdout.split()
    measures = Measures("container_start", arguments, [(Path(runtime).name, version[-1] if version else "")])
    measures.add("process_start", timed(lambda: start(["true"]), arguments.samples))
    failures, begun = 0, machine.clock()
    for image in images:
        if machine.clock() - begun > arguments.seconds:
            break
        try:
            seconds = timed(lambda image=image: start([runtime, "exec", str(image), "true"]), arguments.samples)
        except RuntimeError as error:
            sys.stderr.write(f"{image.name}: {error}\n")
            failures += 1
            continue
        measures.add("container_start", seconds, image=image.stem, megabytes=round(image.stat().st_size / 1e6, 1))
    if failures == len(images):
        give_up(1, "no image started")
    measures.finish()


if __name__ == "__main__":
    main()
