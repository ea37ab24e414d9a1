"""What a step computes: operators of whole batches alone, counted between the steps of one optimizer."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace

import pytest

from modak_ansible.runtime import FILES


class Tensor:
    """As much of a tensor as has a size."""

    dtype = "torch.float32"

    def __init__(self, *shape):
        self.shape = shape

    def dim(self):
        return len(self.shape)

    def numel(self):
        product = 1
        for each in self.shape:
            product *= each
        return product

    def element_size(self):
        return 4

    def is_floating_point(self):
        return True

    def is_contiguous(self, memory_format=None):
        return memory_format is None

    def __getitem__(self, places):
        return Tensor(*self.shape[len(places) :])


def leaves(tree):
    if isinstance(tree, dict):
        return [leaf for each in tree.values() for leaf in leaves(each)]
    return [leaf for each in tree for leaf in leaves(each)] if isinstance(tree, (list, tuple)) else [tree]


def operator(name, *, is_view=False):
    schema = SimpleNamespace(is_mutable=name.endswith("_"))
    return SimpleNamespace(overloadpacket=SimpleNamespace(__name__=name), is_view=is_view, _schema=schema)


@pytest.fixture
def table(monkeypatch):
    monkeypatch.syspath_prepend(str(FILES))
    for name in [each for each in sys.modules if each.startswith("modak_runtime")]:
        monkeypatch.delitem(sys.modules, name)
    from modak_runtime.memory.operators import Table, row_of

    pytree = SimpleNamespace(tree_leaves=leaves)
    torch = SimpleNamespace(Tensor=Tensor, channels_last="last", utils=SimpleNamespace(_pytree=pytree))

    class Called(Table):
        """Takes calls of operators."""

        def call(self, func, args, result, share=1):
            self.ran(row_of(torch, func, args, {}, result), share)

    return Called()


CONV = Tensor(8, 16, 10, 10), Tensor(32, 4, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 4
BACK = Tensor(8, 32, 8, 8), *CONV[:2], [32], *CONV[3:]
HEADS = Tensor(2, 4, 10, 8), Tensor(2, 4, 12, 8), Tensor(2, 4, 12, 8)


@pytest.mark.parametrize(
    ("name", "args", "found", "flop"),
    [
        ("mm", (Tensor(3, 5), Tensor(5, 7)), Tensor(3, 7), 2 * 3 * 5 * 7),
        ("addmm", (Tensor(7), Tensor(3, 5), Tensor(5, 7)), Tensor(3, 7), 2 * 3 * 5 * 7),
        ("bmm", (Tensor(2, 3, 5), Tensor(2, 5, 7)), Tensor(2, 3, 7), 2 * 2 * 3 * 5 * 7),
        ("convolution", CONV, Tensor(8, 32, 8, 8), 2 * 8 * 64 * 32 * 4 * 9),
        ("convolution_backward", (*BACK, [True, True, True]), [CONV[0], CONV[1]], 2 * 2 * 8 * 64 * 32 * 4 * 9),
        ("convolution_backward", (*BACK, [False, True, True]), [None, CONV[1]], 2 * 8 * 64 * 32 * 4 * 9),
        ("_scaled_dot_product_flash_attention_for_cpu", HEADS, HEADS[0], 2 * 2 * 4 * 10 * 12 * 16),
        ("_scaled_dot_product_flash_attention_for_cpu_backward", (HEADS[0], *HEADS), HEADS, 4 * 2 * 4 * 10 * 12 * 16),
        ("relu", (Tensor(3, 5),), Tensor(3, 5), 0),
    ],
)
def test_products_are_counted(table, name, args, found, flop):
    table.call(operator(name), args, found)
    table.stepped("optimizer")
    (row,) = table.as_list()
    assert (row["name"], row["flop"], row["count"], row["format"]) == (name, flop, 1, "float32")


def test_bytes_are_those_that_are_read_and_written_and_a_view_moves_none(table):
    x = Tensor(3, 5)
    table.call(operator("view", is_view=True), (x,), Tensor(15))
    table.call(operator("device"), (x,), "cpu")
    table.call(operator("empty_like"), (x,), Tensor(3, 5))
    table.call(operator("_foreach_mul_"), ([x, x], 2.0), None)
    table.call(operator("relu"), (x,), Tensor(3, 5))
    table.call(operator("add_"), (x, Tensor(3, 5)), x)
    table.stepped("optimizer")
    assert [(row["name"], row["bytes"]) for row in table.as_list()] == [
        ("add_", 180), ("_foreach_mul_", 120), ("relu", 120),
    ]  # fmt: skip


def test_a_step_of_parts_of_batches_does_not_count_and_several_batches_do(table):
    x = Tensor(3, 5)
    relu = operator("relu")
    for shares in ((8, 1), (1, 1)):
        for share in shares:
            table.batch_given()
            table.call(relu, (x,), x, share)
        assert table.as_list() is None
        table.stepped("one")
    assert ([row["count"] for row in table.as_list()], table.batches) == ([2], 2)


def test_a_step_ends_with_the_first_optimizer_and_not_with_another(table):
    one, other = object(), object()
    for optimizer in (one, other, one):
        table.call(operator("relu"), (Tensor(3),), Tensor(3))
        table.stepped(optimizer)
    assert [row["count"] for row in table.as_list()] == [2]


@pytest.mark.parametrize(
    ("shape", "strides"), [((), ()), ((5,), (1,)), ((2, 3, 4), (12, 4, 1)), ((0, 3), (3, 1)), ((3, 0, 2), (2, 2, 1))]
)
def test_strides_of_a_new_tensor(monkeypatch, shape, strides):
    monkeypatch.syspath_prepend(str(FILES))
    tensors = importlib.import_module("modak_runtime.tensors")
    assert tensors.strides_in_order(shape) == strides  # as torch.empty has them
