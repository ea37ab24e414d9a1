"""What a build that failed says, out of what pip and Apptainer print."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.target.images.build import NoCompanion, conflict_error, requirement_error

# As pip 23.2 prints it, blank lines left out as in the end of a log.
CONFLICT = """\
Looking in indexes: https://index.example/simple
ERROR: Cannot install {first} because these package versions have conflicting dependencies.
The conflict is caused by:
{reasons}
To fix this you could try to:
1. loosen the range of package versions you've specified
2. remove package versions to allow pip attempt to solve the dependency conflict
ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/topics/dependency-resolution/
FATAL:   While performing build: while running engine: while running %post section: exit status 1"""


def said_of(*reasons):
    lines = CONFLICT.format(first="x", reasons="\n".join(f"    {reason}" for reason in reasons)).splitlines()
    error = conflict_error([*lines[:3], "    The user requested of the first attempt", *lines])
    return error.message, error.hint


@pytest.mark.parametrize(
    ("reasons", "message", "hint"),
    [
        (
            ["The user requested torchvision", "The user requested (constraint) torchvision<=0.29,==0.28.0+cpu"],
            "pip finds no build of torchvision for the framework's own build: asked for is torchvision; "
            "the build allows torchvision<=0.29,==0.28.0+cpu",
            "name an index or folder with it in the site's pip_extra_index_urls or pip_find_links; or leave it out",
        ),
        (
            [
                *(f"timm 1.0.{n} depends on torchvision" for n in range(99, 0, -1)),
                "The user requested (constraint) torchvision==0.28.0+cpu",
            ],
            "pip finds no build of torchvision for the framework's own build: timm 1.0.99 depends on torchvision; "
            "the build allows torchvision==0.28.0+cpu",
            "name an index or folder with it in the site's pip_extra_index_urls or pip_find_links; or leave it out",
        ),
        (
            ["other 2 depends on torch<2.6", "The user requested (constraint) torch==2.13.0+cpu"],
            "the packages that are asked for are incompatible with the framework's build: other 2 depends on torch<2.6; "
            "the build allows torch==2.13.0+cpu",
            "ask for other versions, leave them to pip, take another build, or give an image of your own",
        ),
        (
            ["text 2 depends on tensorflow<2.22,>=2.21.0", "The user requested (constraint) tensorflow<0"],
            "the packages that are asked for are incompatible with the framework's build: text 2 depends on "
            "tensorflow<2.22,>=2.21.0; tensorflow would replace the framework or was not built for it",
            "leave out what brings it, take a build of another framework, or give an image of your own",
        ),
        (
            ["The user requested a==1", "b 2 depends on a==2"],
            "the packages that are asked for are incompatible with each other: asked for is a==1; b 2 depends on a==2",
            "ask for other versions of them, or leave the versions to pip",
        ),
    ],
)
def test_a_conflict_is_told_in_one_line(reasons, message, hint):
    assert said_of(*reasons) == (message, hint)


def test_a_missing_companion_is_named_for_who_plans_with_another_build():
    said = ["The user requested torchvision", "The user requested (constraint) torchvision<=0.29,==0.28.0+cpu"]
    error = conflict_error(["The conflict is caused by:", *said])
    assert isinstance(error, NoCompanion)
    assert error.lacks == "torchvision"
    others = ["The user requested a==1", "b 2 depends on a==2"]
    assert not isinstance(conflict_error(["The conflict is caused by:", *others]), NoCompanion)


def test_other_failures_are_none():
    assert conflict_error(["ERROR: No matching distribution found for nosuch"]) is None


@given(st.lists(st.text(max_size=30)))
def test_whatever_a_log_holds(lines):
    error = conflict_error(["The conflict is caused by:", *lines])
    assert "\n" not in error.message.replace("\r", "") or any("\n" in line for line in lines)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["ERROR: Could not find a version that satisfies the requirement nosuch (from versions: none)",
             "ERROR: No matching distribution found for nosuch"],
            "the package index has no nosuch, or none for this Python",
        ),
        (
            ["ERROR: Could not find a version that satisfies the requirement six==99.0 (from versions: 1.0b1, 1.1.0, "
             "1.2.0, 1.3.0, 1.16.0, 1.17.0)"],
            "the package index has no six==99.0, for this Python: it has 1.17.0, 1.16.0, 1.3.0, 1.2.0, 1.1.0 and earlier ones",
        ),
        (
            ["ERROR: Could not find a version that satisfies the requirement a>=2 (from b) (from versions: 1.0)"],
            "the package index has no a>=2, which b needs, for this Python: it has 1.0",
        ),
        (
            ["WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError'",
             "ERROR: Could not find a version that satisfies the requirement six (from versions: none)"],
            "the package index could not be reached to look for six",
        ),
        (  # the site's index has told; the framework's own, asked behind it, is out of reach
            ["ERROR: Could not find a version that satisfies the requirement nosuch (from versions: none)",
             "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError'",
             "ERROR: Could not find a version that satisfies the requirement nosuch (from versions: none)"],
            "the package index has no nosuch, or none for this Python",
        ),
        (
            ["  error: subprocess-exited-with-error", "      error: [Errno 2] No such file or directory: 'gcc'",
             "  note: This error originates from a subprocess", "  ERROR: Failed building wheel for pycosat",
             "Failed to build pycosat", "ERROR: Could not build wheels for pycosat, which is required",
             "FATAL:   While performing build: exit status 1"],
            "pycosat has no wheel for this Python, and cannot be built from its sources in the image: "
            "error: [Errno 2] No such file or directory: 'gcc'",
        ),
        (
            ["Collecting mine==1.0", "  error: subprocess-exited-with-error", "      RuntimeError: no compiler",
             "error: metadata-generation-failed", "FATAL:   While performing build: exit status 1"],
            "mine==1.0 has no wheel for this Python, and cannot be built from its sources in the image: RuntimeError: no compiler",
        ),
        (  # an old release, whose setup.py a Python of today does not run
            ["Collecting pandas==1.1.5", "  Installing build dependencies: started",
             "  error: subprocess-exited-with-error", "  × Getting requirements to build wheel did not run successfully.",
             "  ╰─> [21 lines of output]", "      Collecting numpy==1.17.3",
             "      ModuleNotFoundError: No module named 'pkg_resources'", "  note: This error originates from a subprocess",
             "error: subprocess-exited-with-error", "× Getting requirements to build wheel did not run successfully.",
             "╰─> See above for output.", "note: This error originates from a subprocess, and is likely not a problem with pip."],
            "pandas==1.1.5 has no wheel for this Python, and cannot be built from its sources in the image: "
            "ModuleNotFoundError: No module named 'pkg_resources'",
        ),
    ],
)  # fmt: skip
def test_a_package_that_is_not_there_or_not_built_is_told_in_one_line(lines, message):
    error = requirement_error(["Looking in indexes: https://index.example/simple", *lines])
    assert error.message == message
    assert error.hint


def test_who_does_not_reach_an_index_is_told_of_settings_that_there_are():
    lines = ["WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError'",
             "ERROR: Could not find a version that satisfies the requirement six (from versions: none)"]  # fmt: skip
    hint = requirement_error(lines).hint
    assert re.findall(r"\w*_\w+|\w+\.conf", hint) == ["pip_index_url", "pip.conf", "https_proxy"]


@given(st.lists(st.text(max_size=60)))
def test_a_log_that_says_nothing_of_packages_is_left_to_others(lines):
    assert requirement_error([line for line in lines if "ERROR" not in line and "metadata" not in line]) is None
