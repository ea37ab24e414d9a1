"""What a training needs of memory, as a trace of its script told: it was run with tensors that have sizes alone.

Resident are the process itself (what it imports, what libraries take when they compute) and its tensors, as the
allocator lays them out. What grows with the batch is known for a whole one, a half and an eighth, with lines between
them.
"""

from collections.abc import Iterable
from math import ceil, prod
from typing import Literal

from pydantic import Field

from modak_ansible.model.base import Model
from modak_ansible.model.distributed import PIECES, Mesh, mesh_of
from modak_ansible.model.measured.prediction import Interval, Split
from modak_ansible.model.measured.work import Operators, Work
from modak_ansible.model.quantities import format_size

# How far measured peaks were below and above predicted ones at most: of one process, where no run of these records was
# above (benchmarks/memory/records.jsonl); and of several by the law alone, as it was measured before ranks were traced.
_LOW, _LOW_OF_PARTS, _HIGH, _HIGH_OF_SEVERAL = 0.8, 0.8, 1.3, 1.55
# The same where a rank itself was traced.
_LOW_OF_RANK, _HIGH_OF_RANK = 0.85, 1.3
_NO_BYTES = 64  # beyond every power of two in FLOP a byte
# Seconds that PyTorch's kernels take beyond their rooflines for each GB, and for each GFLOP: one by one on a core of a
# Zen 4 with 118 GFLOP/s and 25 GB/s, where attention computes 45 GFLOP/s.
_BEYOND = {
    "native_batch_norm_backward": (0.05, 0.0),
    "gelu": (0.023, 0.0),
    "gelu_backward": (0.037, 0.0),
    "_scaled_dot_product_flash_attention_for_cpu": (0.0, 0.0137),
    "_scaled_dot_product_flash_attention_for_cpu_backward": (0.0, 0.0165),
}
# Attention multiplies piece by piece, some queries of a head with up to 512 keys: two products in the forward and five
# in the backward pass. oneDNN takes 12 to 25 us for each of them however small it is, MKL next to nothing; in bf16 all
# are oneDNN's in the backward pass, and 10 to 12 us. The gradient of a depthwise convolution's input computes row by
# row in bf16 if it has a stride, 0.42 us a row. By half: rooflines are 0.6 to 0.9 of what steps take, and with tcmalloc
# the products of attention take 0.4 of it.
_PIECE_IN_BF16, _PIECE_BY_ONEDNN, _ROW_IN_BF16 = 29e-6, 63e-6, 0.21e-6
_LEAST_OF_ONEDNN = 16**3  # multiplications of a product; smaller ones are never its own
# Seconds for each GB if channels do not lie last: batch-norm's forward pass moves 3.8 GB/s in single precision, and
# max-pooling's 1.2 in any; where they lie last 15 and 12. Of pooling by half, as above.
_NORM, _POOLING = 0.22, 0.4


# Of what an accelerator's allocator reserves, for one process (benchmarks/memory/accelerator.jsonl).
_LOW_OF_ACCELERATOR, _HIGH_OF_ACCELERATOR = 0.9, 1.15


class TracedMemory(Model):
    """What a loop takes of one memory; bytes, by what batches were divided by."""

    tensors: dict[int, int]  # most bytes that are in use at a time
    peaks: dict[int, int]  # the same with what the allocator keeps besides


class TracedLoop(TracedMemory):
    """A loop of the script over batches, and what it takes of the host's memory."""

    rows: int  # samples of a batch; 0 in a loop over something that is no loader
    batches: int = 0  # of the whole loop, of which a few were traced; 0 where nobody knows
    steps: int  # of optimisers; none in a loop that evaluates
    accelerator: TracedMemory | None = None  # what it takes of an accelerator's


class TracedBlocks(Model):
    """Modules of one kind that follow each other in a network; bytes for one whole batch."""

    kind: str
    count: int
    saved: int  # what they all keep for the backward pass
    largest: int  # the same of the one that keeps most
    outputs: int  # of what they give to each other


class Operator(Model):
    """What one operator does in a step, all calls with the same shapes and format together."""

    name: str = Field(description="of PyTorch's aten")
    shapes: tuple[tuple[int, ...], ...] = Field(
        description="of its tensors; of a long list how many, and their numbers"
    )
    format: str = Field(description="precision, and channels_last where the channels of images lie last")
    count: int
    flop: int
    bytes: int = Field(description="read and written")


def by_intensity(operators: Iterable[Operator], samples: int) -> Operators:
    """GFLOP, GB and the GFLOP of convolutions for each sample.

    Operators that lie between the same powers of two in FLOP a byte are taken together: which side of a machine's
    roofline they lie on, and which of two peaks is theirs, is all that counts of them, and the sums are few.
    """

    def part(total: int) -> float:
        return float(f"{total / 1e9 / samples:.4g}")

    by_power: dict[int, tuple[int, int, int]] = {}
    for operator in operators:
        place = (operator.flop // operator.bytes).bit_length() if operator.bytes else _NO_BYTES
        flop, size, convolutions = by_power.get(place, (0, 0, 0))
        convolutions += operator.flop if "convolution" in operator.name else 0
        by_power[place] = flop + operator.flop, size + operator.bytes, convolutions
    sums = (by_power[place] for place in sorted(by_power))
    return tuple((part(flop), part(size), part(convolutions)) for flop, size, convolutions in sums)


def traced_work(operators: Iterable[Operator], samples: int) -> Work:
    """What a step of so many samples computes and moves, and what it takes besides, by its operators."""
    every = tuple(operators)
    kernel_seconds = norm = pooling = 0.0
    pieces = rows = 0
    for operator in every:
        of_gigabyte, of_gflop = _BEYOND.get(operator.name, (0.0, 0.0))
        kernel_seconds += (operator.bytes * of_gigabyte + operator.flop * of_gflop) / 1e9
        pieces += operator.count * _pieces(operator)
        rows += operator.count * _rows(operator)
        if operator.name == "native_batch_norm" and operator.format == "float32":
            norm += operator.bytes * _NORM / 1e9
        elif operator.name == "max_pool2d_with_indices" and "channels_last" not in operator.format:
            pooling += operator.bytes * _POOLING / 1e9
    return Work(
        operators=by_intensity(every, samples),
        calls=sum(operator.count for operator in every),
        kernel_seconds=float(f"{kernel_seconds / samples:.4g}"),
        bf16_seconds=float(f"{(pieces * _PIECE_IN_BF16 + rows * _ROW_IN_BF16) / samples:.4g}"),
        onednn_seconds=float(f"{pieces * _PIECE_BY_ONEDNN / samples:.4g}"),
        pooling_seconds=float(f"{pooling / samples:.4g}"),
        norm_seconds=float(f"{norm / samples:.4g}"),
    )


def _pieces(operator: Operator) -> int:
    """How many pieces attention computes one after the other, of both passes: they are counted in the forward one."""
    match operator.name, operator.shapes:
        case "_scaled_dot_product_flash_attention_for_cpu", ((*heads, queries, width), (*_, keys, _), _, *_):
            size = min(queries, 256 if queries >= 768 else 64 if queries >= 192 else 32)  # as in ATen
            return prod(heads) * ceil(queries / size) if size * min(keys, 512) * width > _LEAST_OF_ONEDNN else 0
    return 0


def _rows(operator: Operator) -> int:
    """Of the inputs of a convolution in groups that has a stride, in the backward pass."""
    match operator.name, operator.shapes:
        case "convolution_backward", ((_, _, *_, made), (images, channels, *rows, given), (_, per_group, *_)):
            groups = channels // max(per_group, 1)
            return images * groups * prod(rows) if groups > 1 and made < given >= 2 * made - 1 else 0
    return 0


class TracedRank(Model):
    """One of several ranks, traced as it does what the runtime does to make one training of them."""

    strategy: str
    ranks: int
    rank: int
    setup: int = Field(description="at most before the first batch: the model is made whole")
    computing: int = Field(description="resident, when libraries have computed and ranks have met for the first time")
    loops: tuple[TracedLoop, ...]


class TracedAccelerator(Model):
    """What a process takes of an accelerator's memory besides its loops; bytes."""

    base: int = Field(description="of the driver and libraries, outside of the allocator")
    setup: int = Field(description="reserved at most before the first batch")


class Need(Model):
    """What the one process of a training takes; all sizes in bytes."""

    key: str = Field(description="of the script, its files and arguments, and of what it runs in")
    training: str = Field(description="its name, for people")
    parameters: int
    gradients: int = Field(description="of the parameters that learn")
    buffers: int
    state: int = Field(description="of optimisers")
    setup: int = Field(description="at most before the first batch")
    loops: tuple[TracedLoop, ...]
    blocks: tuple[TracedBlocks, ...] = ()
    units: tuple[int, ...] = Field(default=(), description="what is whole at one time where parameters are shared out")
    rest: int = Field(default=0, description="of models whose parameters are shared out, whole for all of a pass")
    widths: dict[int, int] | None = Field(
        default=None, description="bytes of parameters that ranks can split, by the number that theirs divides"
    )
    operators: tuple[Operator, ...] | None = Field(
        default=None, description="of one whole step; None where steps are made of more batches than were traced"
    )
    epochs: int | None = Field(
        default=None, description="that the script has by itself where nobody says another number; None: nobody knows"
    )
    batches: int = Field(default=0, description="of that step, whose gradients are added up; 0 of no loader's")
    stages: dict[int, int] = Field(
        default={}, description="bytes of the largest stage of a pipeline, by ranks; 0 where layers are fewer"
    )
    traced: tuple[TracedRank, ...] = Field(default=(), description="as ranks of several processes")
    framework: int = Field(description="resident when the framework is imported")
    script: int = Field(description="resident besides, by what the script imports and reads before it trains")
    computing: int = Field(description="resident besides, when libraries have computed for the first time")
    accelerator: TracedAccelerator | None = Field(default=None, description="None where the script used none")
    place: Literal["host", "accelerator"] = Field(default="host", description="whose memory the sizes are of")

    def on_accelerator(self) -> "Need":
        """The same training's need of the accelerator's memory; of the host's where it uses no accelerator."""
        if self.accelerator is None:
            return self
        update = {
            "place": "accelerator",
            "loops": tuple(
                loop.model_copy(update=loop.accelerator.model_dump()) for loop in self.loops if loop.accelerator
            ),
            "setup": self.accelerator.setup,
            "framework": self.accelerator.base,
            "script": 0,
            "computing": 0,
            "traced": (),  # ranks are traced with gloo, which copies through the host
        }
        return self.model_copy(update=update)

    @property
    def samples(self) -> int:
        """Of a whole step; 0 where it is not known."""
        return self.rows * self.batches

    @property
    def base(self) -> int:
        """Bytes without any tensor."""
        return self.framework + self.script + self.computing

    @property
    def rows(self) -> int:
        """Samples of a batch of the loop that trains; 0 where that is over no loader."""
        return max((loop.rows for loop in self.loops if loop.steps), default=0)

    @property
    def samples_of_epoch(self) -> int | None:
        """Of the loop that trains, where its loader knows its length; the last batch as if it were full."""
        samples = [loop.rows * loop.batches for loop in self.loops if loop.steps]
        return max(samples, default=0) or None

    @property
    def evaluated(self) -> int | None:
        """Samples of the loops that train nothing, behind the first that trains, as far as their loaders tell."""
        first_training = next((place for place, loop in enumerate(self.loops) if loop.steps), len(self.loops))
        return sum(loop.rows * loop.batches for loop in self.loops[first_training:] if not loop.steps) or None

    @property
    def gflop_per_sample(self) -> float | None:
        """Of one step, for each sample; None where it is not known."""
        flop = sum(operator.flop for operator in self.operators or ())
        return flop / 1e9 / self.samples if flop and self.samples else None

    def split(self, ranks: int) -> int:
        """Bytes of the parameters that so many ranks split."""
        return sum(size for width, size in (self.widths or {}).items() if width % ranks == 0)

    def stage(self, ranks: int) -> int:
        """Bytes of the parameters of the largest of so many stages; as if they were even where nobody looked."""
        return self.stages.get(ranks, -(-self.parameters // ranks))


def peak_of(
    need: Need, ranks: int = 1, strategy: str = "none", kept: str = "fits", batch: int | None = None
) -> Interval:
    """Bytes that a process takes at most.

    Args:
        need: the trace of one process with the whole batch.
        ranks: processes that train together.
        strategy: ``ddp`` and ``fsdp`` share out the batch, and ``fsdp`` the parameters and what belongs to them, too;
            ``tensor`` what belongs to the layers that it splits, ``pipeline`` what belongs to layers of other ranks;
            or the name of another mesh, such as ``tensor_2``, whose copies share out the batch, too.
        kept: where what the backward pass needs is: in memory, computed again, or in files.
        batch: of all ranks together, where it is not that of the trace.
    """
    traced_ranks = [rank for rank in need.traced if (rank.strategy, rank.ranks) == (strategy, ranks)]
    if traced_ranks and ranks > 1:
        peak = max(_traced_rank_bytes(need, rank, kept, batch) for rank in traced_ranks)
        return _interval(peak, _LOW_OF_RANK, _HIGH_OF_RANK)
    mesh = mesh_of(strategy, ranks)
    share = 1.0 / mesh.readers if mesh else 1.0
    if batch and need.rows:
        share *= batch / need.rows
    if mesh and mesh.is_alike and ranks > 1:
        rank_bytes = _parameter_bytes(need, mesh)
        sums = rank_bytes if mesh.copies > 1 else 0.0  # gradients as they travel between copies
        return _interval(
            need.base + _split_layer_bytes(need, share, rank_bytes) + sums, _LOW_OF_PARTS, _HIGH_OF_SEVERAL
        )
    if mesh and mesh.shares_out:
        return _interval(need.base + _sharded_bytes(need, mesh.degree, share), _LOW_OF_PARTS, _HIGH_OF_SEVERAL)
    trains = max((_loop_peak(loop, share) for loop in need.loops if loop.steps), default=0.0)
    evaluates = max((_loop_peak(loop, 1.0) for loop in need.loops if not loop.steps), default=0.0)
    if kept == "recomputed":
        trains -= share * _recomputed_bytes(need)
    tensors = max(trains, evaluates)
    if kept == "out-of-core":
        tensors = 0.0  # in files, of which the kernel keeps what there is room for
    elif strategy == "ddp" and ranks > 1:
        tensors += need.parameters  # their gradients as they travel; of what does not learn yet, too
    if ranks > 1:
        return _interval(need.base + tensors, _LOW, _HIGH_OF_SEVERAL)
    if need.place == "accelerator":
        return _interval(need.base + tensors, _LOW_OF_ACCELERATOR, _HIGH_OF_ACCELERATOR)
    return _interval(need.base + tensors, _LOW, _HIGH)


def _parameter_bytes(need: Need, mesh: Mesh) -> float:
    """Bytes of the parameters that a rank keeps whose layers are shared out."""
    if mesh.strategy == "pipeline":
        return need.stage(mesh.degree)
    return need.parameters - (1 - 1 / mesh.degree) * need.split(mesh.degree)


def _recomputed_bytes(need: Need) -> int:
    """Bytes that blocks do not keep of a whole batch where they compute again."""
    return sum(max(0, block.saved - block.outputs - block.largest) for block in need.blocks)


def _traced_rank_bytes(need: Need, rank: TracedRank, kept: str, batch: int | None) -> float:
    """Bytes that a rank takes that was traced itself, with the whole batch.

    With a smaller one a rank of layers may keep more than its part of what is less: that counts as little.
    """
    scale = batch / need.rows if batch and need.rows else 1.0
    grows = max(
        (_batch_bytes(loop, 1.0, need.parameters + need.state) for loop in need.loops if loop.steps), default=0.0
    )
    mesh = mesh_of(rank.strategy, rank.ranks)
    part = 1 / mesh.readers if mesh and scale > 1 else 1 / rank.ranks
    recomputed = scale * _recomputed_bytes(need) / rank.ranks if kept == "recomputed" else 0.0
    trains = max((max(loop.peaks.values()) for loop in rank.loops if loop.steps), default=0)
    evaluates = max((max(loop.peaks.values()) for loop in rank.loops if not loop.steps), default=0)
    tensors = max(trains + (scale - 1) * part * grows - recomputed, evaluates, rank.setup)
    return need.framework + need.script + rank.computing + tensors


def _sharded_bytes(need: Need, ranks: int, share: float) -> float:
    """Bytes of tensors where each rank has its part of the parameters, and large ones go back when they are freed.

    They are most as the backward pass begins, with a unit whole, its gradient, and both on their way; as it ends, with
    the same of what is around all units; or in the optimiser's step, of which each does its part.
    """
    state, travels = need.parameters + need.state, 3 + 1 / ranks
    unit, rest = max(need.units, default=0), need.rest if need.units or need.rest else need.parameters
    grows = max((_batch_bytes(loop, share, state) for loop in need.loops if loop.steps), default=0.0)
    begins, ends = grows + rest + travels * unit, need.gradients / ranks + travels * rest
    smallest_batch = max((loop.tensors[max(loop.tensors)] for loop in need.loops if loop.steps), default=0)
    steps = max(smallest_batch, state + need.gradients) / ranks
    evaluates = max((max(loop.tensors.values()) for loop in need.loops if not loop.steps), default=0)
    looks = evaluates + rest + 2 * unit - (1 - 1 / ranks) * (state + need.gradients)
    return max(state / ranks + max(begins, ends), steps, looks, need.setup)


def _split_layer_bytes(need: Need, share: float, kept_bytes: float) -> float:
    """Bytes of tensors where a rank keeps so many bytes of layers: those of one process, less what others have.

    What is between the layers is less, too, which is not counted.
    """
    removed_share = 1 - kept_bytes / max(1, need.parameters)
    loops = [_loop_peak(loop, share if loop.steps else 1.0) for loop in need.loops]
    removed_bytes = removed_share * (need.parameters + need.gradients + need.state)
    return max(max(loops, default=0.0) - removed_bytes, need.setup)


def _batch_bytes(loop: TracedLoop, share: float, state: int) -> float:
    """Bytes of a loop's tensors that grow with its batch, for a share of it."""
    part, *whole = sorted(loop.tensors, reverse=True)[-2:]
    if not whole:
        return max(0.0, loop.tensors[part] - state) * max(1.0, share)
    return max(0.0, (loop.tensors[whole[0]] - loop.tensors[part]) / (1 / whole[0] - 1 / part)) * share


def _interval(middle: float, low: float, high: float) -> Interval:
    return Interval(middle=middle, low=low * middle, high=high * middle)


def split_of(need: Need | None, ranks: int, strategy: str) -> Split:
    """What ranks do that share out a training's layers, by a trace.

    With ``tensor`` each block sums twice what it gives, there and back. With ``pipeline`` the pieces of a batch follow
    each other: a rank waits until the first one has come to it, and each one, there and back, for what a block gives;
    and it follows, piece by piece, all operators of the forward pass, which are taken for a third of those of a step.
    Copies of a model have their parts of the batch, and sum the gradients of what a rank keeps.
    """
    mesh = mesh_of(strategy, ranks)
    if need is None or mesh is None:
        return Split()
    count, outputs = sum(block.count for block in need.blocks), sum(block.outputs for block in need.blocks)
    outputs //= mesh.copies
    gradients = round(_parameter_bytes(need, mesh)) if mesh.copies > 1 else 0
    if mesh.strategy == "tensor":
        parameter_share = _parameter_bytes(need, mesh) / max(1, need.parameters)
        return Split(left=parameter_share / mesh.copies, messages=4 * count, size=4 * outputs, gradients=gradients)
    pieces = min(max(1, need.rows // mesh.copies), PIECES * mesh.degree)
    times = pieces + mesh.degree - 1
    forward = sum(operator.count for operator in need.operators or ()) / 3 / max(1, need.batches)
    return Split(
        left=_parameter_bytes(need, mesh) / max(1, need.parameters) / mesh.copies * times / pieces,
        messages=2 * times if count else 0,
        size=round(2 * times / pieces * outputs / max(1, count)),
        are_sums=False,
        gradients=gradients,
        followed=round(times * forward),
    )


def format_peak(peak: Interval) -> str:
    """A peak for people: ``1.2 GB (1.1 GB to 1.5 GB)``."""
    middle, low, high = (format_size(round(size)) for size in (peak.middle, peak.low, peak.high))
    return f"{middle} ({low} to {high})"


def _loop_peak(loop: TracedLoop, share: float) -> float:
    """The most that a loop takes with a share of its batch."""
    points = sorted((1.0 / divisor, peak) for divisor, peak in loop.peaks.items())
    if len(points) == 1:
        return points[0][1] * max(1.0, share)
    index = next((place for place, (batch_share, _) in enumerate(points[1:-1]) if share < batch_share), len(points) - 2)
    (x, y), (u, v) = points[index], points[index + 1]
    return max(0.0, y + (v - y) * (share - x) / (u - x))
