"""PyTorch operators reimplemented for one processor: see operators.md beside this file.

The sources are in the definition of the image, line by line, so whoever reads it sees everything in the image.
PyTorch loads the library by itself, as it loads every extension that is installed beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from modak_ansible.errors import ModakError
from modak_ansible.recipes.libraries.place import FOLDER, PYTHON, SOURCES, compiler_flags, printing, processor

LIBRARY = "libmodak_operators.so"
_HERE = Path(__file__).parent
# Debian bookworm's, as for OpenBLAS
_GCC = "12.2.0"
# PyTorch's headers have a kernel's place for every level that the wheel was compiled for.
_LEVELS = "-DHAVE_AVX2_CPU_DEFINITION -DHAVE_AVX512_CPU_DEFINITION"
_METADATA = ("Metadata-Version: 2.1", "Name: modak-operators", "Version: 1")
# What PyTorch looks for when it is imported, from 2.5 on.
_ENTRY_POINTS = ("[torch.backends]", "modak_operators = modak_operators:load")


def commands(architecture: str) -> list[str]:
    """Compiles the library against the headers of the installed wheel, and has PyTorch load it.

    Raises:
        ModakError: the processor has no AVX2, for which there is nothing to gain.
    """
    source, information = f"{SOURCES}/operators", '"$site/modak_operators-1.dist-info"'
    output = f'-o {FOLDER}/{LIBRARY} -L"$torch/lib" -ltorch_cpu -lc10'
    return [
        f"mkdir -p {FOLDER} {source}",
        *(_write(path.read_text().splitlines(), f"{source}/{path.name}") for path in sources()),
        f'site="$({PYTHON} -c \'import sysconfig; print(sysconfig.get_path("purelib"))\')"',
        'torch="$site/torch"',
        f'include="-I$torch/include -I$torch/include/torch/csrc/api/include {_LEVELS}"',
        # one file at a time: each takes a gigabyte of memory
        f'for each in {source}/*.cpp; do g++ {_flags(architecture)} $include -c "$each" -o "$each.o" || exit 1; done',
        f"g++ -shared {source}/*.o {output}",
        _write((_HERE / "modak_operators.py").read_text().splitlines(), '"$site/modak_operators.py"'),
        f"mkdir -p {information}",
        _write(_METADATA, f"{information}/METADATA"),
        _write(_ENTRY_POINTS, f"{information}/entry_points.txt"),
        f"rm -rf {SOURCES}",
    ]


def sources() -> list[Path]:
    """The files of C++."""
    return sorted(path for path in _HERE.iterdir() if path.suffix in (".cpp", ".h"))


def _flags(architecture: str) -> str:
    microarchitecture = processor(architecture)
    if "avx2" not in microarchitecture:
        raise ModakError(
            f"PyTorch's operators for {architecture} would be no faster than the wheel's own",
            hint="say the target's architecture, such as zen4 or skylake_avx512, or take a pip build",
        )
    # linked without an OpenMP of its own: the threads are those of PyTorch's
    level = "avx512f" if "avx512f" in microarchitecture else "avx2"
    return f"-O3 {compiler_flags(architecture, 'gcc', _GCC, level)} -std=c++20 -fPIC -fopenmp -Wno-psabi"


def _write(lines: Iterable[str], path: str) -> str:
    return printing(lines, f"> {path}", indent=4)
