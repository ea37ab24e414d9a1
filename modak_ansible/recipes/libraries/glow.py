"""GLOW, the graph compiler of the paper's PyTorch: built from its own sources, for it publishes no packages."""

from __future__ import annotations

from modak_ansible.recipes.libraries.place import COPYRIGHT, FOLDER, SOURCES, compiler_flags

_REPOSITORY = "https://github.com/pytorch/glow.git"
# GLOW has no releases; this is its main line as it was when PyTorch 1.4 was the newest.
_BEFORE = "2020-03-31"
_TOOLS = (
    "ca-certificates clang-9 cmake git libboost-dev libdouble-conversion-dev libfmt-dev libgflags-dev "
    "libgoogle-glog-dev libpng-dev libprotobuf-dev llvm-9-dev ninja-build protobuf-compiler zlib1g-dev"
)
_PROGRAMS = "model-compiler model-runner"


def commands(architecture: str) -> list[str]:
    """Compiles GLOW's compiler for ONNX models, with its backend for processors.

    Raises:
        ModakError: clang 9 cannot compile for that processor.
    """
    flags = compiler_flags(architecture, "clang", "9.0.1")
    options = (
        "-G Ninja -DCMAKE_BUILD_TYPE=Release -DGLOW_WITH_CPU=ON -DGLOW_BUILD_TESTS=OFF "
        f"-DLLVM_DIR=/usr/lib/llvm-9/cmake -DCMAKE_C_COMPILER=clang-9 -DCMAKE_CXX_COMPILER=clang++-9 "
        f"-DCMAKE_CXX_FLAGS='{flags}'"
    )
    return [
        "apt-get update -y",
        f"DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends {_TOOLS}",
        f"mkdir -p {FOLDER} {SOURCES} {COPYRIGHT} /opt/modak/bin",
        f"git clone {_REPOSITORY} {SOURCES}/glow",
        f"cd {SOURCES}/glow",
        f'git checkout "$(git rev-list -1 --before={_BEFORE} HEAD)"',
        "git submodule update --init --recursive",
        f"cmake -S . -B build {options}",
        f"cmake --build build --target {_PROGRAMS}",
        f"cp {' '.join(f'build/bin/{word}' for word in _PROGRAMS.split())} /opt/modak/bin/",
        f"cp LICENSE {COPYRIGHT}/glow",
        "cd /",
        f"rm -rf {SOURCES} /var/lib/apt/lists/*",
    ]
