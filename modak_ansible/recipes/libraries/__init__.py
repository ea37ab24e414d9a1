"""Libraries that are compiled for the target's processor during an image build, one module each. Pure."""

from __future__ import annotations

from modak_ansible.recipes.libraries import glow, horovod, openblas, operators

_LIBRARIES = {
    "glow": glow.commands,
    "horovod": horovod.commands,
    "openblas": openblas.commands,
    "operators": operators.commands,
}


def library_commands(name: str, architecture: str) -> list[str]:
    """Shell commands, run as root in the image, that leave the library in FOLDER.

    Args:
        architecture: archspec name of the processor that it will run on.

    Raises:
        ModakError: it cannot be compiled for that processor.
    """
    return _LIBRARIES[name](architecture)
