"""What is compiled for a processor."""

from __future__ import annotations

import pytest

from modak_ansible.catalogue import load_catalogue
from modak_ansible.errors import ModakError
from modak_ansible.recipes.libraries import library_commands
from modak_ansible.recipes.libraries.place import compiler_flags


@pytest.mark.parametrize(
    ("architecture", "kernels", "flags"),
    [
        ("zen5", "SKYLAKEX", "-march=x86-64-v4"),
        ("x86_64_v4", "SKYLAKEX", "-march=x86-64-v4"),
        ("zen2", "ZEN", "-march=znver2"),
        ("haswell", "HASWELL", "-march=haswell"),
        ("x86_64_v3", "HASWELL", "-march=x86-64-v3"),
    ],
)
def test_openblas_gets_the_kernels_and_the_flags_of_its_processor(architecture, kernels, flags):
    commands = library_commands("openblas", architecture)
    make = next(command for command in commands if command.startswith("make "))
    assert f"TARGET={kernels} " in make
    assert flags in make
    assert f"sed -i 's/-march=skylake-avx512/{flags} " in "\n".join(commands), "OpenBLAS's own would win"


def test_nothing_is_compiled_for_any_processor_at_all():
    with pytest.raises(ModakError, match="OpenBLAS for x86_64 would be slower") as error:
        library_commands("openblas", "x86_64")
    assert "architecture" in error.value.hint


def test_an_unknown_processor_is_told():
    with pytest.raises(ModakError, match="zen55 is not a processor"):
        library_commands("openblas", "zen55")


def test_an_old_compiler_gets_the_newest_processor_that_it_knows():
    assert compiler_flags("zen2", "clang", "9.0.1") == "-march=znver2 -mtune=znver2"
    assert "znver5" not in compiler_flags("zen5", "clang", "9.0.1")


def test_every_library_of_an_entry_is_known():
    for entry in load_catalogue().entries:
        for name in entry.libraries:
            assert library_commands(name, "zen5")
