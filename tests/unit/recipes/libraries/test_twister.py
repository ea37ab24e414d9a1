"""The random numbers of dropout in whole registers, against a generator that draws them one by one."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from modak_ansible.recipes.libraries import operators

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="it compiles C++")
SOURCE = """
#include "twister.h"
extern "C" void fill(float* out, int64_t count, double p, uint32_t* state, int* left, uint32_t* next) {
  modak::fill_bernoulli(out, count, p, state, *left, *next);
}
"""
WORDS = 624


@pytest.fixture(scope="module", params=["-mavx2", "-mavx2 -mprefer-vector-width=128"])
def fill(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("twister")
    (folder / "fill.cpp").write_text(SOURCE)
    here = next(path.parent for path in operators.sources() if path.name == "twister.h")
    flags = ["-O3", "-std=c++20", *request.param.split(), "-shared", "-fPIC", f"-I{here}"]
    subprocess.run(["g++", *flags, "fill.cpp", "-o", "fill.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "fill.so")).fill


def drawn(random, count, p):
    """As PyTorch has it: two words a number, the first one above, of which 53 bits count."""
    words = random.randint(0, 2**32, size=(count, 2), dtype=np.uint32).astype(np.uint64)
    return ((((words[:, 0] << np.uint64(32)) | words[:, 1]) & np.uint64(2**53 - 1)) * 2.0**-53 < p).astype(np.float32)


@pytest.mark.component
@given(
    seed=st.integers(0, 2**32 - 1),
    before=st.integers(0, 700),
    counts=st.lists(st.integers(1, 3000), min_size=1, max_size=3),
    p=st.floats(1e-9, 1, exclude_max=True),
)
@example(seed=1, before=0, counts=[312, 1, 311], p=0.75)
@example(seed=1, before=1, counts=[1, 311, 624], p=0.5)
@example(seed=1, before=623, counts=[1, 312], p=0.5)
def test_the_numbers_and_the_state_are_those_of_a_plain_loop(fill, seed, before, counts, p):
    random = np.random.RandomState(seed)
    random.randint(0, 2**32, size=before, dtype=np.uint32)  # PyTorch's other draws take single words
    _, words, place, *_ = random.get_state()
    state = np.ascontiguousarray(words)
    left, following = ctypes.c_int(WORDS + 1 - place), ctypes.c_uint32(place)
    for count in counts:
        found = np.full(count, np.nan, np.float32)
        fill(
            found.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(count), ctypes.c_double(p),
            state.ctypes.data_as(ctypes.c_void_p), ctypes.byref(left), ctypes.byref(following),
        )  # fmt: skip
        assert np.array_equal(found, drawn(random, count, p))
    _, words, place, *_ = random.get_state()
    assert (following.value, left.value) == (place, WORDS + 1 - place)
    assert np.array_equal(state, words)
