"""The one task of the image's role does for each state what a task of its own would."""

from __future__ import annotations

import pytest
from ansible._internal._templating._engine import TemplateEngine
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play import Play
from ansible.plugins.loader import init_plugin_loader
from ansible.vars.manager import VariableManager
from example_blueprint import ROOT

ROLE = ROOT / "roles" / "image"
FILES = ["/plans/a.json", "/plans/b.json"]


@pytest.fixture(scope="module", autouse=True)
def plugins():
    """Where modules are found, as any run of Ansible's begins with."""
    init_plugin_loader()


def asked(state, **play):
    """The task as it is carried out: of two plans, of which a deployment has completed."""
    loader = DataLoader()
    (task,) = loader.load_from_file(str(ROLE / "tasks" / "main.yml"), trusted_as_template=True)
    task["ansible.builtin.debug"] = task.pop("modak.hpc.modak_image")  # whose arguments are read here, and no more
    given = {"image_state": state, "image_completed": ["done"], "modak_plan_file": FILES[0], "modak_plan_files": FILES}
    given["ansible_check_mode"] = False  # as it is where a play says that it only looks, and not the command
    variables = {}
    for part in ("defaults", "vars"):
        variables.update(loader.load_from_file(str(ROLE / part / "main.yml"), trusted_as_template=True))
    manager = VariableManager(loader, InventoryManager(loader, sources=["localhost,"]))
    whole = {"hosts": "localhost", "gather_facts": False, "vars": {**variables, **given}, "tasks": [task], **play}
    loaded = Play.load(whole, variable_manager=manager, loader=loader)
    made = loaded.get_tasks()[0][0]
    made.post_validate(TemplateEngine(loader, variables=manager.get_vars(play=loaded, task=made)))
    return made


@pytest.mark.parametrize("state", ["present", "pushed", "signed"])
def test_a_play_that_only_looks_makes_nothing(state):
    assert asked(state, check_mode=True).check_mode
    assert not asked(state).check_mode


def test_a_log_of_a_build_is_only_looked_at():
    assert asked("logged").check_mode


@pytest.mark.parametrize(
    ("state", "names"), [("present", ["done"]), ("found", ["done"]), ("logged", []), ("pushed", [])]
)
def test_what_completed_needs_no_image_and_has_one_to_push_all_the_same(state, names):
    assert asked(state).args["completed"] == names


@pytest.mark.parametrize(("state", "files"), [("logged", FILES[:1]), ("verified", FILES)])
def test_the_log_is_that_of_one_build(state, files):
    assert asked(state).args["plan_files"] == files
