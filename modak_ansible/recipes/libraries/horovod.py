"""Horovod, compiled beside the image's TensorFlow with its MPI: it is published as sources only.

Its processes are started, and sum, by MPI alone: gloo would want horovodrun beside the scheduler's launcher.
"""

from __future__ import annotations

from modak_ansible.recipes.libraries.place import COPYRIGHT, ENVIRONMENT, PYTHON, SOURCES

_PIN = "horovod==0.28.1 --hash=sha256:92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
_BESIDE = "HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1"
_BY = "HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_GLOO=1"
_TOOLS = "cmake libopenmpi-dev make"


def commands(architecture: str) -> list[str]:  # noqa: ARG001 - it sums gradients, and is the same for all processors
    """Compiles what an entry's requirements cannot say: a package whose build asks for tools and words of its own."""
    return [
        "apt-get update -y",
        f"DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends {_TOOLS}",
        f"mkdir -p {SOURCES} {COPYRIGHT}",
        f"printf '%s\\n' '{_PIN}' > {SOURCES}/horovod.txt",
        f'{_BESIDE} {_BY} MAKEFLAGS="-j$(nproc)" {PYTHON} -m pip install --no-cache-dir --no-deps '
        f"--no-build-isolation --require-hashes -r {SOURCES}/horovod.txt",
        f"cp {ENVIRONMENT}/lib/python3*/site-packages/horovod-*.dist-info/licenses/LICENSE {COPYRIGHT}/horovod",
        f"rm -rf {SOURCES} /var/lib/apt/lists/*",
    ]
