"""OpenBLAS for one processor: a BLAS whose matrix products do not ask who made the processor, as MKL's do.

PyTorch's wheels carry MKL inside libtorch_cpu.so and look ``sgemm_`` up by its name, so a library that is preloaded
answers instead. Only BLAS is built: MKL's LAPACK stays. It takes its threads from the one OpenMP of the process.
"""

from __future__ import annotations

from modak_ansible.errors import ModakError
from modak_ansible.recipes.libraries.place import FOLDER, compiler_flags, debian_source, leave_source, processor

# Debian bookworm's; for a newer processor it compiles for the newest of the ancestors that it knows.
_GCC = "12.2.0"


def commands(architecture: str) -> list[str]:
    """Compiles OpenBLAS from the source package of the image's own Debian release.

    Raises:
        ModakError: the processor is a generic one, for which there is nothing to gain.
    """
    kernels = _kernels(architecture)
    flags = compiler_flags(architecture, "gcc", _GCC, "avx512f" if kernels == "SKYLAKEX" else "")
    # 256 is the most threads that it will use
    options = f"TARGET={kernels} USE_OPENMP=1 NUM_THREADS=256 NOFORTRAN=1 NO_LAPACK=1"
    return [
        *debian_source("openblas", "gcc libc6-dev make"),
        # OpenBLAS names the oldest processor that its kernels fit, after all other flags, and the last -march counts
        f"sed -i 's/-march=skylake-avx512/{flags}/' Makefile.x86_64",
        f"make -j\"$(nproc)\" {options} CC=gcc COMMON_OPT='-O2 {flags}' libs shared",
        f"cp -L libopenblas.so.0 {FOLDER}/libopenblas.so.0",
        *leave_source(),
    ]


def _kernels(architecture: str) -> str:
    """Which of OpenBLAS's hand-written kernels a processor gets."""
    microarchitecture = processor(architecture)
    family = {microarchitecture.name, *(ancestor.name for ancestor in microarchitecture.ancestors)}
    if "avx512f" in microarchitecture:
        return "SKYLAKEX"
    if "zen" in family:
        return "ZEN"
    if "avx2" in microarchitecture:
        return "HASWELL"
    raise ModakError(
        f"OpenBLAS for {architecture} would be slower than the wheel's own library",
        hint="say the target's architecture, such as zen4 or skylake_avx512, or take a pip build",
    )
