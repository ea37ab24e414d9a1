import pytest
from golden import assert_golden

from modak_ansible.catalogue import load_catalogue
from modak_ansible.recipes.environment import environment_script

pytestmark = pytest.mark.component

NATIVE = [
    entry for entry in load_catalogue().entries if entry.origin == "pip" and not entry.packages and not entry.untried
]


@pytest.mark.parametrize("entry", NATIVE, ids=lambda entry: entry.name)
def test_environment(entry, shellcheck):
    text = environment_script(entry, ["pandas>=2"], "3.13")
    shellcheck(text)
    if entry.name in ("pytorch-2.13-cpu", "tensorflow-2.21-cpu"):
        assert_golden(f"environments/{entry.name}.sh", text)
