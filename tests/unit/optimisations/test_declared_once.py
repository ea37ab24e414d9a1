"""What an optimisation declares is found wherever it is needed: one module is enough."""

from __future__ import annotations

import gc
import importlib.util
import sys

import pytest
import yaml

from generate import optimisations as declared
from modak_ansible import optimisations as package
from modak_ansible.measuring.suites import switches
from modak_ansible.optimisations import optimisations
from modak_ansible.performance import stock
from modak_ansible.planning.configurations import Configurations

from .conftest import matter

INVENTED = """
from modak_ansible.optimisations.base import Option, Optimisation
from modak_ansible.optimisations.properties import Property


class PageCache(Optimisation):
    name = "page_cache"
    properties = (Property("Whether pages of files stay in memory.", ("kept", "off"), in_application=True),)
    suite_default = "kept"
    stock = ("kept",)
    acts_on = "environment"

    def options(self, draft):
        return Option("kept", "as the kernel does"), Option("off", "read anew each time")

    def apply(self, draft, value):
        if value == "off":
            draft.environment["PAGES"] = value
            draft.settings[self.name] = value
"""


def forget():
    for each in (optimisations, stock._by_name, stock.suite_switches):
        each.cache_clear()


@pytest.fixture(scope="module")
def invented(tmp_path_factory):
    """Another optimisation: one module."""
    gc.freeze()  # of what is older nothing is to be collected at the end, which would take seconds
    folder = tmp_path_factory.mktemp("invented")
    (folder / "page_cache.py").write_text(INVENTED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package, "__path__", [*package.__path__, str(folder)])
        forget()
        yield
    del sys.modules["modak_ansible.optimisations.page_cache"], package.page_cache
    forget()
    gc.collect()
    assert "page_cache" not in {optimisation.name for optimisation in optimisations()}


@pytest.fixture
def generated(invented, root, tmp_path, monkeypatch):
    """A file as it is written with the invented optimisation: its text, or the module that it is."""

    def text(path):
        return declared.FILES[path]((root / path).read_text())

    def module(path):
        name = "generated_" + path.replace("/", "_").removesuffix(".py")
        (tmp_path / f"{name}.py").write_text(text(path))
        spec = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)  # where pydantic looks for the names of annotations
        spec.loader.exec_module(module)
        return module

    return lambda path: module(path) if path.endswith(".py") else text(path)


def test_a_new_one_is_the_last_property_of_blueprints(generated, root):
    def properties_of(text):
        return yaml.safe_load(text)["data_types"]["modak.datatypes.Optimisation"]["properties"]

    known = properties_of((root / "tosca/types/trainings.yaml").read_text())
    properties = properties_of(generated("tosca/types/trainings.yaml"))
    assert list(properties) == [*known, "page_cache"]
    assert properties["page_cache"] == {
        "type": "string",
        "default": "any",
        "description": "Whether pages of files stay in memory.",
        "constraints": [{"valid_values": ["any", "kept", "off"]}],
    }


def test_a_new_one_is_a_field_of_requests_and_in_their_schema(generated):
    form = generated("modak_ansible/reading/requests/form/form.py").RequestForm
    assert form.model_validate({"job": {"application": {"page_cache": "off"}}}).job.runs.page_cache == "off"
    field = form.model_json_schema()["$defs"]["ApplicationForm"]["properties"]["page_cache"]
    assert (field["anyOf"][0]["enum"], field["description"]) == (
        ["kept", "off"],
        "Whether pages of files stay in memory.",
    )


def test_a_new_one_is_in_the_table_of_stock_and_among_the_switches_of_suites(invented):
    assert stock.is_stock("pytorch", "page_cache", "kept")
    assert stock.switched("pytorch", {"page_cache": "off"}) == {"page_cache": "off"}
    assert switches.plan_switch_problem({"page_cache": "of"}, "page_cache") == ("page_cache cannot be of", "kept, off")
    assert switches.script_switches({"page_cache": "off", "depth": "2"}) == {"depth": "2"}


def test_a_new_one_has_its_line_in_its_page(invented):
    page = declared.page("# page_cache\n\nWhat it does.\n", matter("page_cache"))
    assert page.startswith("# page_cache\n\nSet with `page_cache` (`any`, `kept`, `off`). Stock: `kept`. ")
    assert page.endswith("\n\nWhat it does.\n")
    assert declared.page(page, matter("page_cache")) == page


def test_a_new_one_is_planned_as_it_is_asked_for(generated, draft):
    model = generated("modak_ansible/model/application.py")
    start = draft(entry="")
    preferences = model.Optimisation(**start.request.optimisation.model_dump(), page_cache="off")
    start.request = start.request.model_copy(update={"optimisation": preferences})
    configurations = Configurations(start)
    assert configurations.settled(configurations.names[0], {}).draft.environment["PAGES"] == "off"
