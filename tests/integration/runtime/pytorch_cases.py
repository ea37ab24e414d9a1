"""What prepare does to PyTorch's objects, case by case; runs in the interpreter that has PyTorch, and says how it went."""

import contextlib
import copy
import functools
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import traceback
import warnings
from unittest import mock

import numpy as np
import torch
from modak_runtime import pytorch
from modak_runtime.pytorch import fused
from modak_runtime.pytorch.steps import follow_clipping
from modak_runtime.report import Report
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

LAST = "memory_format=channels_last"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 5)

    def forward(self, images):
        return self.head(torch.relu(self.convolution(images)).flatten(1))


class Images(Dataset):
    """So many samples of 3 x 8 x 8; each one is made by a function of its number."""

    def __init__(self, make=None, samples=40):
        self.make, self.samples, self.reads = make, samples, 0
        self.images = torch.arange(samples * 192, dtype=torch.float32).view(samples, 3, 8, 8)

    def __len__(self):
        return self.samples

    def __getitem__(self, number):
        self.reads += 1
        image = self.images[number]
        return (image if self.make is None else self.make(image, number)), number % 5


def prepared(choices, *objects):
    """The objects, and the report of what was done to them."""
    planned = dict(word.split("=") for word in choices.split())
    report = Report("", planned)
    report.prepared = True
    given = pytorch.prepare(torch, report, objects)
    assert all(one is other for one, other in zip(given, objects))
    return report


def outcome(report, name):
    return report.as_dict(True)["choices"][name]


def refused(choices, name, word, *objects):
    found = outcome(prepared(choices, *objects), name)
    assert found["applied"] is None and word in found["reason"], found


def batches(loader, epochs=3):
    """Every batch, with what the random streams hold between them."""
    found = []
    for _ in range(epochs):
        for images, labels in loader:
            found.append((images.clone(), labels.clone(), torch.rand(1).item(), np.random.rand(), random.random()))
    return found


def seed():
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)


def same_batches(loader, choices="input=memory", **options):
    """Whether a loader gives to the bit what it gives without us."""
    seed()
    plain = batches(loader(), **options)
    seed()
    ours = loader()
    report = prepared(choices, ours)
    kept = batches(ours, **options)
    assert len(plain) == len(kept)
    for one, other in zip(plain, kept):
        assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1]) and one[2:] == other[2:]
        assert one[0].stride() == other[0].stride()
    return report, ours


def case_memory_gives_the_same_batches_and_leaves_every_random_stream_alone():
    report, loader = same_batches(lambda: DataLoader(Images(), batch_size=16, shuffle=True))
    assert outcome(report, "input") == {"planned": "memory", "applied": "memory", "how": "prepare", "reason": ""}
    reads = loader.dataset.reads
    assert reads <= 40 + 3 * 2 + 2 * 4 + 8, reads  # once each, and the looks
    assert isinstance(loader, DataLoader) and len(loader) == 3 and len(loader.dataset) == 40


def case_memory_with_other_processes():
    report, loader = same_batches(lambda: DataLoader(Images(), batch_size=16, shuffle=True, num_workers=2))
    assert outcome(report, "input")["applied"] == "memory"
    assert loader.num_workers == 0  # nothing is left for them to do


def case_memory_with_processes_that_persist():
    same_batches(lambda: DataLoader(Images(), batch_size=16, shuffle=True, num_workers=1, persistent_workers=True))


def case_memory_with_a_generator_of_the_loaders_own_and_dropped_rests():
    def loader():
        generator = torch.Generator().manual_seed(5)
        return DataLoader(Images(), batch_size=16, shuffle=True, drop_last=True, generator=generator)

    same_batches(loader, epochs=6)


def case_an_epoch_that_is_left_early():
    def first_two(loader):
        seed()
        return [images.clone() for _ in range(4) for images, _ in zip_two(loader)]

    plain = first_two(DataLoader(Images(), batch_size=16, shuffle=True))
    loader = DataLoader(Images(), batch_size=16, shuffle=True)
    prepared("input=memory", loader)
    assert all(torch.equal(one, other) for one, other in zip(plain, first_two(loader)))


def zip_two(loader):
    for number, batch in enumerate(loader):
        yield batch
        if number == 1:
            return


def case_a_batch_that_the_script_changes_is_not_what_is_kept():
    loader = DataLoader(Images(), batch_size=40)
    prepared("input=memory", loader)
    for _ in range(3):
        for images, _ in loader:
            assert images[1, 0, 0, 0] == 192
            images.zero_()


def case_random_samples_are_not_kept():
    for make in (
        lambda image, number: image + torch.rand(1),
        lambda image, number: image + np.random.rand(),
        lambda image, number: image + random.random(),
    ):
        report, _ = same_batches(lambda make=make: DataLoader(Images(make), batch_size=16, shuffle=True))
        assert "random numbers" in outcome(report, "input")["reason"]


def case_samples_that_are_random_now_and_then():
    def make(image, number):
        return image + torch.rand(1) if number == 7 else image

    report, _ = same_batches(lambda: DataLoader(Images(make), batch_size=16, shuffle=True))
    assert "random numbers" in outcome(report, "input")["reason"]


def case_samples_from_a_stream_that_nobody_knows():
    source = np.random.default_rng(1)
    dataset = Images(lambda image, number: image + float(source.random()))
    refused("input=memory", "input", "read again", DataLoader(dataset, batch_size=16))


def case_samples_that_change_with_the_epoch():
    dataset = Images(lambda image, number: image + dataset.epoch)
    dataset.epoch = 0
    loader = DataLoader(dataset, batch_size=16)
    report = prepared("input=memory", loader)
    for epoch in range(3):
        dataset.epoch = epoch
        assert next(iter(loader))[0][0, 0, 0, 0] == epoch
    assert "from one epoch to the next" in outcome(report, "input")["reason"]


def case_what_is_not_kept():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(3))

    def mixed(samples):
        images = torch.stack([image for image, _ in samples])
        return images - images.mean(0), torch.tensor([label for _, label in samples])

    words = Images(lambda image, number: "word")
    ragged = Images(lambda image, number: image[:, : 1 + number])
    refused("input=memory", "input", "stream", DataLoader(Stream()))
    refused("input=memory", "input", "stacked", DataLoader(Images(), batch_size=8, collate_fn=mixed))
    refused("input=memory", "input", "not a tensor", DataLoader(words, batch_size=8))
    refused("input=memory", "input", "does not batch samples", DataLoader(Images(), batch_size=None))
    report = prepared("input=memory", DataLoader(ragged, batch_size=1))  # which cannot even be looked at
    assert outcome(report, "input")["applied"] is None and "equal size" in outcome(report, "input")["reason"]


def case_more_than_the_memory_is_not_kept():
    from modak_runtime.pytorch import store

    free = store.free_memory
    store.free_memory = lambda: 1000
    try:
        report, _ = same_batches(lambda: DataLoader(Images(), batch_size=16, shuffle=True))
    finally:
        store.free_memory = free
    assert "may use 40 %" in outcome(report, "input")["reason"]


def case_named_parts_and_dictionaries_keep_their_form():
    class Named(Images):
        def __getitem__(self, number):
            return {"image": self.images[number], "label": number}

    loader = DataLoader(Named(), batch_size=16)
    prepared("input=memory", loader)
    for _ in range(2):
        for batch in loader:
            assert sorted(batch) == ["image", "label"] and batch["label"].dtype == torch.int64


def case_workers_read_the_same_batches():
    report, loader = same_batches(lambda: DataLoader(Images(), batch_size=16, shuffle=True), "workers=2")
    assert outcome(report, "workers")["applied"] == "2" and loader.num_workers == 2


def case_the_model_stays_what_it_is():
    model = Net()
    names, weights = list(model.state_dict()), list(model.parameters())
    report = prepared(LAST + " precision=bf16", model)
    assert list(model.state_dict()) == names and all(a is b for a, b in zip(weights, model.parameters()))
    assert outcome(report, "precision")["applied"] == "bf16"
    formats = []
    model.convolution.register_forward_hook(
        lambda module, arguments, output: formats.append(
            (output.dtype, output.is_contiguous(memory_format=torch.channels_last))
        )
    )
    assert model(torch.rand(2, 3, 8, 8)).dtype == torch.float32
    assert formats == [(torch.bfloat16, True)]


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.all = nn.Linear(16, 48)

    def forward(self, words, mask=None, dropout=0.0):
        of = self.all(words).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(*of, attn_mask=mask, dropout_p=dropout)
        self.seen = seen.dtype
        return seen


def case_short_attention_in_bf16_is_computed_in_single_precision():
    attend_in_bf16(has_amx=False, longest=256)


def case_what_is_short_is_less_where_there_are_tiles_for_bf16():
    attend_in_bf16(has_amx=True, longest=128)


def attend_in_bf16(has_amx, longest):
    stock = nn.functional.scaled_dot_product_attention
    try:
        with warnings.catch_warnings(), mock.patch.object(torch.cpu, "_is_amx_tile_supported", lambda: has_amx):
            warnings.simplefilter("error")
            attend(stock, longest)
    finally:
        nn.functional.scaled_dot_product_attention = stock


def attend(stock, longest):
    kinds = []

    def told(query, *arguments, **options):
        kinds.append((query.dtype, torch.is_autocast_enabled("cpu")))
        return stock(query, *arguments, **options)

    nn.functional.scaled_dot_product_attention = told
    model = Attending()
    plain = copy.deepcopy(model)
    for each in (model, nn.Linear(2, 2)):  # twice: one way around it is enough
        assert outcome(prepared("precision=bf16", each), "precision")["applied"] == "bf16"
    short = torch.rand(2, 12, 16)
    for mask in (None, torch.ones(12, 12, dtype=torch.bool).tril(), torch.zeros(12, 12)):
        found = model(short, mask)
        assert (kinds.pop(), model.seen, found.dtype) == ((torch.float32, False), torch.bfloat16, torch.float32)
        assert torch.allclose(found, plain(short, mask), atol=2e-2)
        assert kinds.pop() == (torch.float32, False)
    found.sum().backward()
    plain(short, mask).sum().backward()
    assert torch.allclose(model.all.weight.grad, plain.all.weight.grad, rtol=5e-2, atol=5e-2)
    kinds.clear()
    model(torch.rand(1, longest, 16))
    assert kinds.pop() == (torch.float32, False)
    model(torch.rand(1, longest + 1, 16)), model(short, None, 0.5)
    assert kinds == [(torch.bfloat16, True)] * 2
    kinds.clear()
    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)  # PyTorch's own names its arguments by places
    prepared("precision=bf16", layer)
    layer(short).sum().backward()
    assert kinds == [(torch.float32, False)]
    warnings.simplefilter("ignore")  # of a prototype
    ragged = torch.nested.nested_tensor([torch.rand(4, 16), torch.rand(6, 16)], layout=torch.jagged)
    heads = ragged.unflatten(-1, (2, 8)).transpose(1, 2)  # which have no length
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert nn.functional.scaled_dot_product_attention(heads, heads, heads).dtype == torch.bfloat16


def case_a_copy_computes_with_its_own_weights():
    model = Net()
    prepared(LAST, model)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.head.bias.add_(1)
    images = torch.rand(2, 3, 8, 8)
    assert torch.allclose(twin(images), model(images) + 1, atol=1e-5)


def case_a_pickled_model_needs_nothing_of_ours():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten())
    prepared(LAST + " precision=bf16", model)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.pt")
        torch.save(model, path)
        read = (
            "import sys, torch; m = torch.load(sys.argv[1], weights_only=False); print(m(torch.ones(1, 3, 8, 8)).shape)"
        )
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("MODAK", "PYTHONPATH"))}
        done = subprocess.run(
            [sys.executable, "-c", read, path], env=clean, capture_output=True, text=True, check=False
        )
        assert done.stdout == "torch.Size([1, 144])\n", done.stderr


def case_a_model_without_convolutions_has_no_format():
    refused(LAST, "memory_format", "no weights", nn.Linear(2, 2))


def case_what_needs_a_gpu():
    if not torch.cuda.is_available():
        refused("precision=tf32", "precision", "NVIDIA", Net())
        refused("precision=fp16", "precision", "fp16", Net())


def case_two_passes_make_the_step_of_one_batch():
    images, labels = torch.rand(8, 3, 8, 8), torch.arange(8) % 5
    torch.manual_seed(0)
    whole = Net()
    halves = copy.deepcopy(whole)
    one, other = (torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (whole, halves))
    report = prepared("accumulation=2", halves, other)
    for zeroed in (other, halves, other):
        one.zero_grad()
        nn.functional.cross_entropy(whole(images), labels).backward()
        one.step()
        for part in (slice(0, 4), slice(4, 8)):
            zeroed.zero_grad()
            nn.functional.cross_entropy(halves(images[part]), labels[part]).backward()
            other.step()
    assert outcome(report, "accumulation")["applied"] == "2"
    for a, b in zip(whole.parameters(), halves.parameters()):
        assert torch.allclose(a, b, atol=1e-6)


def case_passes_are_clipped_once_by_their_mean():
    images, labels = torch.rand(8, 3, 8, 8), torch.arange(8) % 5
    follow_clipping(torch)
    clips = (
        lambda model: nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.3),
        lambda model: nn.utils.clip_grad_value_(model.parameters(), 0.01),
    )
    for clip in clips:
        whole = Net()
        halves = copy.deepcopy(whole)
        one, other = (torch.optim.Adam(model.parameters(), lr=0.01) for model in (whole, halves))
        prepared("accumulation=2", halves, other)
        for _ in range(3):
            one.zero_grad()
            nn.functional.cross_entropy(whole(images), labels).backward()
            wanted = clip(whole)
            one.step()
            for part in (slice(0, 4), slice(4, 8)):
                other.zero_grad()
                nn.functional.cross_entropy(halves(images[part]), labels[part]).backward()
                norm = clip(halves)
                other.step()
            assert norm == wanted or torch.allclose(norm, wanted, rtol=1e-4)
        for a, b in zip(whole.parameters(), halves.parameters()):
            assert torch.allclose(a, b, atol=1e-5)


def case_what_would_be_added_up_wrongly_is_not():
    model, other = Net(), Net()
    first, second = (torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, other))
    report = prepared("accumulation=2", model, other, first, second)
    assert "of several optimizers" in outcome(report, "accumulation")["reason"]
    reports = prepared("accumulation=2", model, first), prepared("accumulation=2", other, second)
    for report in reports:
        assert "of several optimizers" in outcome(report, "accumulation")["reason"]
    report = prepared("accumulation=2", model, first)
    assert outcome(report, "accumulation")["applied"] == "2"
    before = next(model.parameters()).detach().clone()
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(torch.rand(2, 3, 8, 8)).sum()).backward()
    scaler.step(first)
    assert "a GradScaler divides" in outcome(report, "accumulation")["reason"]
    assert not torch.equal(before, next(model.parameters()))


def case_an_optimizer_that_calls_the_model_steps_as_ever():
    weight = torch.nn.Parameter(torch.tensor([4.0]))
    optimizer = torch.optim.LBFGS([weight])
    report = prepared("accumulation=2", optimizer)

    def closure():
        optimizer.zero_grad()
        loss = (weight**2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert abs(weight.item()) < 1e-3 and "calls the model itself" in outcome(report, "accumulation")["reason"]


def case_batches_of_another_size_for_training_alone():
    training, test = DataLoader(Images(), batch_size=8, shuffle=True), DataLoader(Images(), batch_size=8)
    report = prepared("batch_size=20", training, test)
    assert outcome(report, "batch_size")["applied"] == "20"
    assert [len(labels) for _, labels in training] == [20, 20] and len(training) == 2 and training.batch_size == 20
    assert len(test) == 5


def case_the_probe_of_the_product_draws_from_no_stream():
    seed()
    before = torch.get_rng_state()
    threads = torch.get_num_threads()
    assert 0 < pytorch.matmul_error(torch) < 1e-5
    assert torch.equal(before, torch.get_rng_state()) and torch.get_num_threads() == threads


def with_fused_steps(act, choice="optimizer_step=fused"):
    """What a function gives while the runtime takes fused steps, and the report."""
    report, hooks = Report("", dict([choice.split("=")])), sys.modules["torch.optim.optimizer"]
    report.prepared = True
    fused.imported(torch, report)
    try:
        return act(), report
    finally:
        hooks._global_optimizer_pre_hooks.clear()
        hooks._global_optimizer_post_hooks.clear()


def learnt(make, steps=6, kept=None, kind=torch.float32):
    """A network after some steps, its optimiser, and whether these were fused; it goes on from what was kept."""
    torch.manual_seed(3)
    model, seen = Net().to(kind), set()
    optimizer = make(model)
    optimizer.register_step_pre_hook(lambda *_: seen.update(bool(each.get("fused")) for each in optimizer.param_groups))
    if kept:
        model.load_state_dict(kept[0])
        optimizer.load_state_dict(kept[1])
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.rand(4, 3, 8, 8, dtype=kind)), torch.arange(4)).backward()
        optimizer.step()
    return model, optimizer, seen


def near(one, other):
    return all(torch.allclose(a, b, rtol=1e-5, atol=1e-7) for a, b in zip(one.parameters(), other.parameters()))


def case_fused_steps_learn_the_same_and_leave_the_optimiser_as_it_was():
    of = torch.optim
    for make in (
        lambda model: of.AdamW(model.parameters(), 1e-2),
        lambda model: of.Adam(model.parameters(), 1e-2, weight_decay=0.1, amsgrad=True, maximize=True),
        lambda model: of.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
        lambda model: of.SGD(model.parameters(), 0.1),
        lambda model: of.Adagrad(model.parameters(), 1e-2),
        lambda model: type("Own", (of.AdamW,), {})(model.parameters(), 1e-2),
    ):
        plain, alone, was = learnt(make)
        assert was == {False}
        (model, optimizer, now), report = with_fused_steps(functools.partial(learnt, make))
        assert now == {True}
        assert near(model, plain)
        assert outcome(report, "optimizer_step")["applied"] == "fused"
        assert [each["fused"] for each in optimizer.param_groups] == [None]
        kept, ours = alone.state_dict(), optimizer.state_dict()
        assert kept["param_groups"] == ours["param_groups"]
        assert [*kept["state"]] == [*ours["state"]]
        (model, _, _), _ = with_fused_steps(functools.partial(learnt, make, kept=(plain.state_dict(), kept)))
        assert near(model, learnt(make, kept=(plain.state_dict(), ours))[0])


def case_steps_that_cannot_be_fused_stay_as_they_are():
    of = torch.optim
    for make, kind, words in (
        (lambda model: of.Adadelta(model.parameters()), torch.float32, "Adadelta: it has no fused kernel"),
        (lambda model: of.AdamW(model.parameters(), fused=False), torch.float32, "AdamW: the script makes this choice"),
        (
            lambda model: of.AdamW(model.parameters(), foreach=True),
            torch.float32,
            "AdamW: the script makes this choice",
        ),
        (lambda model: of.Adam(model.parameters(), torch.tensor(1e-2)), torch.float32, "Adam: its learning rate is a"),
        (lambda model: of.SGD(model.parameters(), 0.1), torch.bfloat16, "SGD: a parameter is in bfloat16"),
    ):
        plain, _, _ = learnt(make, kind=kind)
        (model, _, now), report = with_fused_steps(functools.partial(learnt, make, kind=kind))
        assert now == {False}
        assert all(torch.equal(*pair) for pair in zip(model.parameters(), plain.parameters()))
        found = outcome(report, "optimizer_step")
        assert (found["applied"], found["how"].startswith(words)) == ("default", True)


def case_of_two_optimisers_one_that_can_is_enough():
    def act(kinds):
        for kind in kinds:
            weights = nn.Parameter(torch.ones(3))
            weights.grad = torch.ones(3)
            kind([weights], 0.1).step()

    both = [torch.optim.Adadelta, torch.optim.AdamW]
    for kinds in (both, both[::-1]):
        _, report = with_fused_steps(functools.partial(act, kinds))
        assert outcome(report, "optimizer_step")["applied"] == "fused"


def case_gradients_that_are_sparse_keep_the_steps_of_their_group():
    def act():
        words, head = nn.Embedding(50, 4, sparse=True), nn.Linear(4, 2)
        optimizer = torch.optim.SGD([{"params": words.parameters()}, {"params": head.parameters()}], 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            head(words(torch.arange(5))).sum().backward()
            optimizer.step()

    _, report = with_fused_steps(act)
    assert outcome(report, "optimizer_step")["how"] == "hook"
    assert "in 1 of 2 groups" in outcome(report, "optimizer_step")["reason"]


def case_numbers_that_lie_in_another_order_than_their_parameters_keep_their_steps():
    """PyTorch's kernels would add each number to another one's, and say nothing."""
    last, kinds = torch.channels_last, torch.optim

    def steps(make, turn, given=lambda images: images):
        torch.manual_seed(1)
        weights = nn.Parameter(torch.randn(4, 3, 5, 5).to(memory_format=last if turn else torch.contiguous_format))
        optimizer = make([weights])
        for _ in range(3):
            weights.grad = given(torch.randn(4, 3, 5, 5))
            optimizer.step()
        return weights, optimizer

    for make in (
        lambda weights: kinds.AdamW(weights, 0.1),
        lambda weights: kinds.SGD(weights, 0.1, momentum=0.9),
        lambda weights: kinds.Adagrad(weights, 0.1),
    ):
        for given in (lambda images: images, lambda images: images[:, :, :1].expand(4, 3, 5, 5)):
            plain, _ = steps(make, True, given)
            (ours, _), report = with_fused_steps(functools.partial(steps, make, True, given))
            assert torch.equal(plain, ours)
            assert "a gradient has another memory layout" in outcome(report, "optimizer_step")["how"]
        plain, _ = steps(make, True, lambda images: images.to(memory_format=last))
        (ours, _), report = with_fused_steps(
            functools.partial(steps, make, True, lambda images: images.to(memory_format=last))
        )
        assert torch.allclose(plain, ours, rtol=1e-5)
        assert outcome(report, "optimizer_step")["applied"] == "fused"

        def gone_on(make=make):
            _, kept = steps(make, False)  # a state whose numbers lie as in a contiguous parameter
            weights = nn.Parameter(torch.ones(4, 3, 5, 5).to(memory_format=last))
            optimizer = make([weights])
            optimizer.load_state_dict(kept.state_dict())
            weights.grad = torch.rand(4, 3, 5, 5).to(memory_format=last)
            optimizer.step()
            return weights

        ours, report = with_fused_steps(gone_on)
        assert torch.allclose(gone_on(), ours, rtol=1e-4)
        assert outcome(report, "optimizer_step")["applied"] == "fused"


def case_a_state_of_another_format_is_laid_out_for_the_scripts_own_fused_steps():
    def gone_on(own):
        torch.manual_seed(2)
        kept = torch.optim.AdamW([nn.Parameter(torch.rand(4, 3, 5, 5))], 0.1)
        kept.param_groups[0]["params"][0].grad = torch.rand(4, 3, 5, 5)
        kept.step()
        weights = nn.Parameter(torch.ones(4, 3, 5, 5).to(memory_format=torch.channels_last))
        optimizer = torch.optim.AdamW([weights], 0.1)
        optimizer.load_state_dict(kept.state_dict())
        optimizer.param_groups[0]["fused"] = own
        weights.grad = torch.rand(4, 3, 5, 5).to(memory_format=torch.channels_last)
        optimizer.step()
        return weights, optimizer.param_groups[0]["fused"]

    plain, _ = gone_on(None)
    (ours, kept), report = with_fused_steps(functools.partial(gone_on, True), "memory_format=channels_last")
    assert torch.allclose(plain, ours, rtol=1e-5)
    assert kept is True
    assert "optimizer_step" not in report.as_dict(True)["choices"]


def case_a_step_that_fails_leaves_nothing_behind():
    def act():
        weights = nn.Parameter(torch.ones(4, 3))
        optimizer = torch.optim.SGD([weights], 0.1)

        def closure():
            raise ArithmeticError

        with contextlib.suppress(ArithmeticError):
            optimizer.step(closure)
        weights.grad = torch.rand(3, 4).t()
        optimizer.step()
        return weights, optimizer

    torch.manual_seed(5)
    plain, _ = act()
    torch.manual_seed(5)
    (ours, optimizer), _ = with_fused_steps(act)
    assert torch.equal(plain, ours)
    assert optimizer.param_groups[0]["fused"] is None


def case_a_group_that_joins_later_is_looked_at():
    def act():
        head, tail = nn.Linear(4, 4), nn.Linear(4, 2)
        optimizer = torch.optim.AdamW(head.parameters(), 0.1)
        for step in range(3):
            if step == 1:
                optimizer.add_param_group({"params": tail.parameters(), "fused": False})
            optimizer.zero_grad()
            tail(head(torch.rand(3, 4))).sum().backward()
            optimizer.step()
        return [each["fused"] for each in optimizer.param_groups]

    groups, report = with_fused_steps(act)
    assert groups == [None, False]
    assert "in 1 of 2 groups" in outcome(report, "optimizer_step")["reason"]


def main():
    results = {}
    for name, act in sorted(globals().items()):
        if name.startswith("case_"):
            trouble = io.StringIO()
            try:
                act()
            except Exception:  # of any kind: the test that asks for it tells it
                traceback.print_exc(file=trouble)
            results[name] = trouble.getvalue()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
