"""Matters of the process's environment: allocator, threads, binding, waiting, huge pages, staging."""

from __future__ import annotations

import pytest

from modak_ansible.errors import CannotPlan
from modak_ansible.model.measured.work import Work
from modak_ansible.model.target import Storage

from .conftest import matter, values, why_not

GLIBC = "glibc can ask for them from 2.35 on, and bullseye has 2.31"


def test_the_allocator_has_to_be_in_the_image(draft):
    assert values(matter("allocator").options(draft())) == ["system", "tcmalloc"]
    for made in (draft("tensorflow-2.21-cuda"), draft(entry=""), draft(target={"container_runtime": "none"})):
        assert values(matter("allocator").options(made)) == ["system"]


def test_what_a_build_preloads_comes_first(draft):
    made = draft()
    made.environment["LD_PRELOAD"] = "libblas.so.3"
    matter("allocator").apply(made, "tcmalloc")
    assert made.environment["LD_PRELOAD"] == "libblas.so.3:libtcmalloc_minimal.so.4"


def test_threads_are_the_cores_of_the_process(draft):
    made = draft("tensorflow-2.21-cpu")
    assert matter("threads").default(made).value == "4"
    matter("threads").apply(made, "4")
    assert made.environment == {"OMP_NUM_THREADS": "4", "TF_NUM_INTRAOP_THREADS": "4"}
    assert why_not(matter("threads").options(made), "8").startswith("the scheduler gives the other cores")


def test_threads_without_any_cores_known_are_the_frameworks(draft):
    made = draft()
    made.layout = made.layout._replace(cores=None)
    assert matter("threads").default(made) is None
    assert values(matter("threads").options(made)) == ["the framework's default"]
    matter("threads").apply(made, "the framework's default")
    assert made.environment == {}


def test_more_threads_than_cores_are_refused(draft):
    with pytest.raises(CannotPlan, match="5 threads are more than the 4 cores of a process"):
        matter("threads").options(draft(threads=5))


@pytest.mark.parametrize(
    ("resources", "binding", "waiting"),
    [
        ({"cores_per_process": 1}, None, None),  # one thread neither waits nor moves
        ({"cores_per_process": 4}, "none", "adaptive"),  # others may be on the node
        ({"cores_per_process": 4, "exclusive": True}, None, None),
        ({"cores_per_process": 8}, None, None),
    ],
)
def test_shared_nodes_have_their_own_rules(draft, resources, binding, waiting):
    made = draft(resources=resources)
    matter("threads").apply(made, str(resources["cores_per_process"]))
    for name, value in (("binding", binding), ("wait_policy", waiting)):
        default = matter(name).default(made)
        assert (default.value if default else None) == value


def test_threads_spin_where_the_scheduler_keeps_jobs_to_their_cores(draft):
    made = draft(resources={"cores_per_process": 4})
    made.partition = made.partition.model_copy(update={"own_cores": True})
    matter("threads").apply(made, "4")
    assert matter("wait_policy").default(made) is matter("binding").default(made) is None
    assert matter("wait_policy").options(made)[0].reason.startswith("the job has its cores to itself")


@pytest.mark.parametrize("entry", ["pytorch-2.13-cpu", "pytorch-1.4-pip", ""])
def test_where_nothing_of_ours_looks_threads_spin_briefly(draft, entry):
    made = draft(resources={"cores_per_process": 4})
    made.entry = next((each for each in made.catalogue.entries if each.name == entry), None)
    matter("threads").apply(made, "4")
    policy = matter("wait_policy")
    looks = entry == "pytorch-2.13-cpu"
    assert policy.default(made).value == ("adaptive" if looks else "brief")
    adaptive = policy.options(made)[-1]
    assert (adaptive.value, bool(adaptive.why_not)) == ("adaptive", not looks)


def test_where_the_process_looks_at_its_cores_nothing_is_set_before(draft):
    made = draft(resources={"cores_per_process": 4})
    matter("wait_policy").apply(made, "adaptive")
    assert (made.choices, made.environment, made.settings) == ({"wait_policy": "adaptive"}, {}, {})
    matter("wait_policy").apply(made, "brief")
    assert made.environment == {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}


def test_binding_and_waiting_set_what_openmp_reads(draft):
    made = draft()
    matter("binding").apply(made, "cores")
    matter("wait_policy").apply(made, "active")
    assert made.environment == {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores", "OMP_WAIT_POLICY": "ACTIVE"}
    assert made.settings == {"binding": "cores", "wait_policy": "active"}


@pytest.mark.parametrize(
    ("entry", "reason", "variable"),
    [
        ("pytorch-2.13-cpu", "", {"THP_MEM_ALLOC_ENABLE": "1"}),
        ("tensorflow-2.21-cpu", "", {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}),
        ("pytorch-1.4-pip", GLIBC, None),
        ("tensorflow-1.14-pip", GLIBC, None),
        ("tensorflow-2.1-hub", "its version of glibc is not known", None),
        ("", "the given image has not been inspected yet; modak deploy does that before it plans", None),
        ("pytorch-2.13-cuda", "the accelerator's memory is not the allocator's", None),
    ],
)
def test_huge_pages_need_somebody_who_asks_for_them(draft, entry, reason, variable):
    made = draft(entry)
    assert why_not(matter("huge_pages").options(made), "transparent") == reason
    if variable:
        matter("huge_pages").apply(made, "transparent")
        assert {name: made.environment[name] for name in variable} == variable


def test_tcmalloc_asks_for_no_huge_pages(draft):
    made = draft("tensorflow-2.21-cpu")
    matter("allocator").apply(made, "tcmalloc")
    assert why_not(matter("huge_pages").options(made), "transparent").startswith("tcmalloc takes them only from")
    pytorch = draft()
    matter("allocator").apply(pytorch, "tcmalloc")
    assert why_not(matter("huge_pages").options(pytorch), "transparent") == ""


def test_large_data_is_not_copied_for_one_job(draft):
    made = draft()
    assert matter("staging").default(made).value == "node-local"
    made.request = made.request.model_copy(
        update={"dataset": made.request.dataset.model_copy(update={"size": 60 * 10**9})}
    )
    found = matter("staging").default(made)
    assert (found.value, found.reason) == (
        "shared", "the data has 60 GB, more than the 50 GB that are copied for one job",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("home", "scratch", "epochs", "value"),
    [
        ("default-common", "default-ssd", 2, "node-local"),
        ("default-ssd", "default-ssd", 2, "node-local"),
        ("default-ultra_high", "default-ssd", 2, "shared"),
        ("default-common", "default-ssd", 1, "shared"),
        ("default-common", "default-ssd", None, "node-local"),
    ],
)
def test_the_faster_storage_is_read_and_nothing_is_copied_for_one_epoch(draft, home, scratch, epochs, value):
    work = Work(epochs=epochs)
    storage = {
        "home": Storage(path="~", storage_class=home),
        "scratch": Storage(path="/scratch", sharing="node-local", storage_class=scratch),
    }
    made = draft(target=storage, application={"work": work})
    assert matter("staging").default(made).value == value


def test_without_data_nothing_is_staged(draft):
    made = draft(staging="shared")
    made.request = made.request.model_copy(update={"dataset": None})
    assert matter("staging").options(made) == ()
    assert matter("staging").requested(made) == ""
