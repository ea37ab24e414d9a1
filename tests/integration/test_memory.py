"""A script's need of memory, found without computing; and blocks that compute again what they did not keep."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from modak_ansible.planning.tracing import need_from
from modak_ansible.runtime import FILES

SCRIPT = Path(__file__).parent / "runtime" / "memory.py"
# A model that is moved, and a loop over what no loader gives.
OWN_LOOP = """
import itertools, torch
model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 10))
model.to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
images, labels = torch.zeros(16, 1, 8, 8), torch.zeros(16, dtype=torch.long)
for step in {steps}:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
"""
# All that it takes are four layers alike.
OF_RANKS = """
import modak_runtime, torch
from torch.utils.data import DataLoader, TensorDataset
layers = [each for _ in range(4) for each in (torch.nn.Linear(1024, 1024, bias=False), torch.nn.ReLU())]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(TensorDataset(torch.zeros(64, 1024)), 16)
model, optimizer, loader = modak_runtime.prepare(model, optimizer, loader)
for (batch,) in loader:
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""


# Its samples are put together by threads.
OF_THREADS = """
import torch
from torch.utils.data import DataLoader, Dataset
class Ones(Dataset):
    def __len__(self):
        return 256
    def __getitem__(self, index):
        return torch.ones(4096)
model = torch.nn.Linear(4096, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for batch in DataLoader(Ones(), 64):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""
# One weight is used again and again, or an LSTM has a sequence.
OF_LAYER = """
import torch
class Twice(torch.nn.Module):
    def __init__(self, *others):
        super().__init__()
        self.weight, self.others = torch.nn.Parameter(torch.zeros(1024, 1024)), others
    def forward(self, x):
        return x + (self.weight * 2).sum()
model = {model}
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(4):
    x = torch.zeros({shape})
    for _ in range({times}):
        x = model(x)
    (x[0] if isinstance(x, tuple) else x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# Layers of all kinds, an index, what is done in place, and a graph that autograd adds up; patched, nothing is known.
OF_ALL_KINDS = """
import sys
import modak_runtime
from modak_runtime.memory.known import Known
get = Known.get
def told(self, key):
    found = get(self, key)
    if found[0] is not None:
        open(sys.argv[1], "w").close()
    return found if sys.argv[1] == "known" else (None, None)
Known.get = told
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.images = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 8, 3, groups=4),
            nn.GroupNorm(2, 8), nn.ConvTranspose2d(8, 6, 2, 2), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(216, 16))
        self.words, self.rnn = nn.Embedding(50, 16), nn.LSTM(16, 16, batch_first=True)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.1, batch_first=True), 3)
        self.turns = nn.Parameter(torch.zeros(9, 16))
        self.out = nn.Linear(16, 5)
    def forward(self, images, words):
        x = self.words(words) + self.turns.cos().unsqueeze(0)
        x = self.layers(self.rnn(x)[0])
        places = torch.arange(0, 9, 2)
        a, b = x[:, places].chunk(2, -1)
        waves = torch.fft.rfft(x.detach(), dim=1).abs().mean(1, keepdim=True)
        x = torch.cat([a * b.sigmoid(), b], -1) + waves
        return self.out(x.mean(1).add_(self.images(images)).masked_fill(x[:, 0] > 3, 0))
torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.zeros(64, 3, 16, 16), torch.ones(64, 9).long(), torch.zeros(64).long())
model, optimizer, loader = modak_runtime.prepare(model, optimizer, torch.utils.data.DataLoader(data, 16))
for epoch in range(2):
    for images, words, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images, words), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
"""

# Recurrent layers of all kinds, as scripts use them; without "once" each is taken apart, as PyTorch does, and each step
# of the optimiser is traced.
OF_PASSES = """
import sys
import modak_runtime
from modak_runtime.memory import alike
take, passes = alike.take_passes, []
def told(*words):
    take(*words)
    rehearse = alike._Passes._rehearse
    def counted(self):
        passes.append(self._forms)
        open("passes", "w").write(str(len(passes)) + " " + str(len(set(passes))))
        return rehearse(self)
    alike._Passes._rehearse = counted
alike.take_passes = told
if "once" not in sys.argv[1]:
    alike.take_passes = alike.take_steps = lambda *_words: None
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.both = nn.GRU(16, 32, 3, batch_first=True, dropout=0.2, bidirectional=True)
        self.plain, self.bare = nn.RNN(64, 32), nn.RNN(32, 32, 2, nonlinearity="relu", bias=False)
        self.still, self.out = nn.GRU(32, 32).requires_grad_(False), nn.Linear(32, 3)
    def forward(self, x):
        x, states = self.both(x)
        x, _ = self.plain(x.transpose(0, 1), states[:1])
        return self.out(self.still(self.bare(x)[0])[1][0])
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), 0.1)
for step in range(4):
    x = torch.zeros(8, 10, 16, requires_grad=True)
    model(x)  # for nothing
    loss = model(x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    if "slopes" in sys.argv[1]:
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        slope.square().sum().backward()
    with torch.no_grad():
        model(x)
    optimizer.step()
    optimizer.zero_grad()
"""


def run(python: str, folder: Path, word: str = "train", script: Path = SCRIPT, **more: str) -> dict[str, Any]:
    """The last line that the script writes; nothing where it ends before."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("MODAK", "PYTHON"))}
    ours |= {"PYTHONPATH": str(FILES), "OMP_NUM_THREADS": "1", "MODAK_APPLIED": str(folder / "applied.json"), **more}
    command = [python, str(script), word]
    done = subprocess.run(command, env=ours, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    last = (done.stdout.splitlines() or [""])[-1]
    return json.loads(last) if last.startswith("{") else {}


@pytest.fixture(scope="module")
def traced(pytorch_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the script was traced as it is."""
    folder = tmp_path_factory.mktemp("traced")
    run(pytorch_python, folder, MODAK_TRACE="memory", MODAK_CHOICES="")
    return folder


def test_a_script_is_traced_as_it_is(pytorch_python: str, tmp_path: Path, traced: Path) -> None:
    need = need_from(traced, "key", "train")
    assert need is not None
    assert not (traced / "model.pt").exists()
    assert need.gradients == need.parameters
    assert 2 * need.parameters <= need.state <= 2 * need.parameters + 1000
    trains, evaluates = need.loops
    assert (trains.rows, evaluates.rows, evaluates.steps) == (64, 64, 0)
    assert (need.samples_of_epoch, need.epochs) == (192, None)
    assert trains.tensors[1] > trains.tensors[2] > trains.tensors[8]
    assert trains.tensors[1] > evaluates.tensors[1] > need.parameters
    assert [each.count for each in need.blocks] == [4]
    tracked = run(pytorch_python, tmp_path, "tracked")
    assert trains.tensors[1] == pytest.approx(tracked["tracked"], rel=0.03)
    assert need.operators is not None
    assert need.gflop_per_sample == tracked["flop"] / 1e9 / 64
    assert sum(each.flop for each in need.operators) == tracked["flop"]
    first = next(
        each for each in need.operators if (1536, 8) in each.shapes
    )  # the first layer's, a batch's places in rows
    assert (first.format, first.count) == ("float32", 1)


def test_operators_that_are_known_are_those_that_pytorch_gives(pytorch_python: str, tmp_path: Path) -> None:
    script, found = tmp_path / "kinds.py", []
    script.write_text(OF_ALL_KINDS)
    for word in ("known", "asked"):
        folder = tmp_path / word
        folder.mkdir()
        run(pytorch_python, folder, word, script=script, MODAK_TRACE="memory", MODAK_TRACE_RANKS="2")
        need = need_from(folder, "key", "kinds")
        assert need is not None
        found.append(need)
    known, asked = found
    assert [path.parent.name for path in tmp_path.rglob("known") if path.is_file()] == ["known"]
    assert known.operators == asked.operators
    assert known.operators
    assert [(each.strategy, each.rank) for each in known.traced] == [
        ("ddp", 0), ("fsdp", 0), ("tensor", 0), ("pipeline", 0), ("pipeline", 1),
    ]  # fmt: skip
    for ours, theirs in zip([known, *known.traced], [asked, *asked.traced], strict=True):
        assert [each.tensors for each in ours.loops] == [each.tensors for each in theirs.loops]
        assert [each.steps for each in ours.loops] == [each.steps for each in theirs.loops]


@pytest.mark.parametrize("more", ["", "slopes"])
def test_passes_over_sequences_are_traced_once_and_count_as_often_as_they_are_made(
    pytorch_python: str, tmp_path: Path, more: str
) -> None:
    script, found = tmp_path / "passes.py", []
    script.write_text(OF_PASSES)
    for word in ("once" + more, "apart" + more):
        folder = tmp_path / word
        folder.mkdir()
        run(pytorch_python, folder, word, script=script, MODAK_TRACE="memory")
        need = need_from(folder, "key", "passes")
        assert need is not None
        found.append(need)
    once, apart = found
    traced, kinds = map(int, (tmp_path / ("once" + more) / "passes").read_text().split())
    assert kinds == 4
    assert traced <= 4 * kinds  # forth, and back in each of the ways in which that was asked for: not once a step
    assert once.loops[0].tensors[1] == pytest.approx(apart.loops[0].tensors[1], rel=0.03)
    computed = [sum(each.flop for each in need.operators or ()) for need in found]
    assert computed[0] == computed[1] > 0
    steps = [
        {
            (each.name, each.shapes): each.count
            for each in need.operators or ()
            if each.name.startswith(("addc", "lerp"))
        }
        for need in found
    ]
    assert steps[0] == steps[1]
    assert sum(steps[0].values()) == 3 * 34  # operators, and parameters that learn


def test_a_script_is_traced_as_ranks_in_each_way(pytorch_python: str, tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(OF_RANKS)
    run(pytorch_python, tmp_path, script=script, MODAK_TRACE="memory", MODAK_TRACE_RANKS="2")
    need = need_from(tmp_path, "key", "ranks")
    assert need is not None
    assert [(each.strategy, each.rank) for each in need.traced] == [
        ("ddp", 0), ("fsdp", 0), ("tensor", 0), ("pipeline", 0), ("pipeline", 1),
    ]  # fmt: skip
    whole, found = need.loops[0], {}
    for each in need.traced:
        (trains,) = each.loops
        assert (each.ranks, each.computing > need.computing) == (2, True)
        assert trains.rows == (8 if each.strategy in ("ddp", "fsdp") else 16)
        assert trains.steps == 4, each.strategy  # the first one has no state of the optimizer's yet
        found[each.strategy] = trains.tensors[1] / need.parameters
    alone = whole.tensors[1] / need.parameters  # with gradients, Adam's moments, and what its step has of a layer
    assert alone == pytest.approx(4.75, rel=0.01)
    assert found["ddp"] == pytest.approx(alone + 1, rel=0.01)  # the gradients once more, as they travel
    assert found["tensor"] == pytest.approx(alone / 2, rel=0.01)  # of each layer a half
    assert found["pipeline"] == pytest.approx(alone - 2, rel=0.01)  # two layers, and their step's room for one
    assert found["tensor"] < found["fsdp"] < alone - 1.5


ADDED_UP = """
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 4))
optimizer = torch.optim.Adam(model.parameters())
loader, other = (
    DataLoader(TensorDataset(torch.zeros(1280, 256), torch.zeros(1280, dtype=torch.long)), 16) for _ in range(2)
)
for epoch in range(2):
    for number, (x, y) in enumerate(loader, 1):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        if number % 16 == 0:
            optimizer.step()
            optimizer.zero_grad()
    sum(model(x).sum() for x, _ in other)  # without no_grad, as some evaluate
"""


def test_gradients_that_are_added_up_over_many_batches_are_traced_until_a_step(
    pytorch_python: str, tmp_path: Path
) -> None:
    script = tmp_path / "added.py"
    script.write_text(ADDED_UP)
    run(pytorch_python, tmp_path, script=script, MODAK_TRACE="memory")
    need = need_from(tmp_path, "key", "added")
    assert need is not None
    trains, evaluates = need.loops
    assert (trains.steps, trains.rows, evaluates.steps) == (1, 16, 0)
    assert need.state >= 2 * need.parameters
    assert trains.tensors[1] > 4 * need.parameters  # with gradients, and Adam's moments
    assert sum(each.flop for each in need.operators or () if each.shapes == ((1024,), (16, 256), (256, 1024))) == (
        16 * 2 * 16 * 256 * 1024
    )


@pytest.mark.parametrize(("steps", "traced"), [("itertools.count()", 4), ("range(3)", 3)])
def test_a_model_is_moved_and_a_loop_of_its_own_ends(
    pytorch_python: str, tmp_path: Path, steps: str, traced: int
) -> None:
    script = tmp_path / "own.py"
    script.write_text(OWN_LOOP.format(steps=steps))
    run(pytorch_python, tmp_path, script=script, MODAK_TRACE="memory")
    need = need_from(tmp_path, "key", "own")
    assert need is not None
    assert [loop.steps for loop in need.loops] == [traced]
    assert sum(each.flop for each in need.operators or () if each.name in ("mm", "addmm")) == 3 * 2 * 16 * 144 * 10


# Batches that are cut out of what the script has by places that it draws; and what looks at numbers, or copies.
BY_PLACES = """
import torch
data = torch.tensor([number % 12 for number in range(2000)])
model = torch.nn.Sequential(torch.nn.Embedding(12, 32), torch.nn.Linear(32, 12))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(9):
    places = torch.randint(len(data) - 25, (16,))
    x = torch.stack([data[place : place + 24] for place in places])
    order = torch.randperm(16)[:8]
    loss = torch.nn.functional.cross_entropy(model(x[order]).flatten(0, 1), x[order].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WITH_COPIES = """
import copy, torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Sequential(torch.nn.Linear(32, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 12))
mean, other = torch.optim.swa_utils.AveragedModel(model), copy.deepcopy(model)
assert len(list(other.parameters())) == 6
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(2):
    for x, y in DataLoader(TensorDataset(torch.zeros(96, 32), torch.zeros(96, dtype=torch.long)), 48):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean.update_parameters(model)
    with torch.inference_mode():
        print(mean(torch.zeros(5, 32)).argmax(1).float().mean().item(), other(x).sum().item())
"""


@pytest.mark.parametrize(
    ("source", "shape"), [(BY_PLACES, ((12,), (8 * 24, 32), (32, 12))), (WITH_COPIES, ((8,), (48, 32), (32, 8)))]
)
def test_what_a_script_does_with_whole_numbers_and_copies_is_followed(
    pytorch_python: str, tmp_path: Path, source: str, shape: tuple[tuple[int, ...], ...]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(source)
    run(pytorch_python, tmp_path, script=script, MODAK_TRACE="memory")
    need = need_from(tmp_path, "key", "train")
    assert need is not None
    assert any(each.name == "addmm" and each.shapes == shape for each in need.operators or ())


@pytest.mark.parametrize(
    ("model", "shape", "times", "mib"),
    [
        # Of 4 MiB each: the weight, its gradient, and that of one use more.
        ("Twice()", "1", 6, 12),
        # Of 2 MiB each: the sequence, what comes out, its gradient, the weights, their gradients, and what oneDNN packs
        # of them; of 8 the gates; of 32 KiB each what it asks for: 4 for each of 64 places, 11 for each of 65.
        ("torch.nn.LSTM(256, 256)", "64, 32, 256", 1, 50),
        # Where that is mapped for itself, what is written to: nine states, of 4 MiB each.
        ("torch.nn.LSTM(256, 256)", "128, 32, 256", 1, 70),
        # Of 4 MiB each: the weight, its gradient, and that of one use more; nothing of what has no numbers.
        ("Twice(torch.empty(1 << 26, device='meta'))", "1", 6, 12),
    ],
)
def test_what_fake_tensors_know_nothing_of_is_counted(
    pytorch_python: str, tmp_path: Path, model: str, shape: str, times: int, mib: int
) -> None:
    """Autograd adds up gradients in place, and oneDNN keeps what its LSTM needs for the backward pass."""
    script = tmp_path / "layer.py"
    script.write_text(OF_LAYER.format(model=model, shape=shape, times=times))
    run(pytorch_python, tmp_path, script=script, MODAK_TRACE="memory")
    need = need_from(tmp_path, "key", "layer")
    assert need is not None
    assert need.loops[0].tensors[1] / (1 << 20) == pytest.approx(mib, rel=0.02)


def test_a_copy_of_the_process_tells_what_operators_take(pytorch_python: str, tmp_path: Path) -> None:
    found = run(pytorch_python, tmp_path, script=SCRIPT.with_name("accelerator.py"))
    assert found["base"] == 1
    assert [each["given"] for each in found["taken"]] == [[1152], [1536, 432, 16], [3072], [1536, 432], [], [], []]
    assert [each["transient"] for each in found["taken"]] == [100] * 5 + [0, 0]


def test_threads_of_the_script_hold_nothing_up(pytorch_python: str, tmp_path: Path) -> None:
    """A product in a copy of a process that had threads of OpenMP waited for them, and nothing was known of it."""
    script = tmp_path / "threads.py"
    script.write_text(OF_THREADS)
    began = time.monotonic()
    run(pytorch_python, tmp_path, script=script, MODAK_TRACE="memory", OMP_NUM_THREADS="2")
    assert time.monotonic() - began < 50  # it gave up after 60 s
    need = need_from(tmp_path, "key", "threads")
    assert need is not None
    assert need.loops[0].accelerator is None


def test_what_is_computed_again_is_the_same_to_the_bit(pytorch_python: str, tmp_path: Path) -> None:
    plain = run(pytorch_python, tmp_path)
    assert run(pytorch_python, tmp_path, MODAK_CHOICES="memory=recomputed") == plain
    choice = json.loads((tmp_path / "applied.json").read_text())["choices"]["memory"]
    assert (choice["applied"], choice["reason"]) == ("recomputed", "4 blocks")


def test_what_is_computed_again_needs_less(pytorch_python: str, tmp_path: Path, traced: Path) -> None:
    run(pytorch_python, tmp_path, MODAK_TRACE="memory", MODAK_CHOICES="memory=recomputed")
    peaks = []
    for folder in (traced, tmp_path):
        need = need_from(folder, "key", "train")
        assert need is not None
        peaks.append(need.loops[0].tensors[1])
    assert peaks[1] < 0.6 * peaks[0]
