"""Makes a plain script of PyTorch data parallel: models alike in all ranks, a part of each batch, gradients of all.

Models, optimizers and loaders stay the objects that they are. A step is that of the whole batch, as one process would
make it: each rank's gradient counts as its part of the samples does.
"""

import atexit
import collections
import contextlib
import hashlib
import random
import sys
import threading
import time
import weakref

from modak_runtime.malloc import keep_small_apart
from modak_runtime.parallel import batch_parts, consistency, norm, sharded, split, stages, whole
from modak_runtime.parallel.alive import Pace, watched
from modak_runtime.parallel.group import Axis, Mesh, first_line, meet
from modak_runtime.parallel.room import room_of
from modak_runtime.pytorch.store import restore, streams
from modak_runtime.ranks import ALIKE, Rank, is_parallel
from modak_runtime.steps import length_of

_RANKS = []  # of this process, once it is one of several
_SETTLES = 0.2  # seconds
_CUTS = 16  # batches
_COUNTED = 256  # ranks: as many as a sum in bf16 counts
_SHARES_OUT = {"fsdp": sharded.share_out, "tensor": split.share_out, "pipeline": stages.share_out}


def here():
    """What makes this process one of several; None where nothing has."""
    return _RANKS[0] if _RANKS else None


def begin(torch, environment, gpu=False):
    """What makes this process one of several, begun once; None where it is to be the only one."""
    if not _RANKS and is_parallel(environment):
        rank = Rank(environment)
        strategy, degree = rank.way(environment["MODAK_STRATEGY"])
        if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
            rank.end("PyTorch %s cannot be made parallel by prepare; 2.1 can" % torch.__version__)
        problem = sharded.problem(torch) if strategy != "ddp" else ""
        if problem:
            rank.end(problem)
        meet(torch, rank, gpu)
        _RANKS.append(Ranks(torch, rank, strategy, degree))
    return here()


class Ranks:
    """This process among several.

    Attributes:
        number: of this rank, from 0; world: how many there are.
        model: the ranks that have parts of one copy of a model; data: those that have the same part of other copies.
        samples: the ranks that share out each batch: all, or ``data``.
        part: samples of this rank, and of all, in the batch that its training loop was given last.
        shares: whether loops that train read this rank's part only.
        optimizers: that prepare was given.
        stepped: parameters that these step, or others have stepped, in the training that goes on. Not their optimizers:
            when the garbage collector comes to one that a script has left differs between ranks.
        turn: the loop that trains whose batch ranks were given last; None before the first.
        looks: one that does not train whose batch they were given since, and that goes on; None where there is none.
        drops: whether a collate_fn of the script's own makes batches, of which it may leave samples out.
        cuts: of the last batches the rows that this rank was given, and into how many parts each was cut.
        arrivals: gradients that backward passes have left in parameters, or that torch.autograd.grad gave of them.
        passes: backward passes that have left some; begun: those before the forward pass that was begun last.
        steps: of optimizers with parameters whose gradients ranks sum.
        has_parts: whether it keeps a part of each parameter only.
        is_alike: whether ranks with parts of one copy are given the same samples, and draw the same numbers.
    """

    def __init__(self, torch, rank, strategy, degree):
        self.rank, self.number, self.world, self.strategy = rank, rank.number, rank.world, strategy
        self.torch, self.distributed, self.has_parts = torch, torch.distributed, strategy != "ddp"
        self.is_alike = strategy in ALIKE
        self.mesh = Mesh(torch, rank.number, rank.world, degree)
        self.model, self.data = self.mesh.model, self.mesh.data
        self.samples = self.data if self.is_alike else Axis(range(rank.world), rank.number)
        self.part, self.shares = (1, self.samples.size), self.samples.size > 1
        self.models, self.gradients, self.learns, self.trace = [], [], False, []
        self.optimizers, self.stepped = weakref.WeakSet(), set()
        self.turn = self.looks = self.pipe = None  # the last is that of ranks with stages
        self.drops, self.arrivals, self.passes, self.begun, self.steps, self._task = False, 0, 0, 0, 0, None
        self.has_looked, self._printed, self._training_start = False, set(), (0, 0, 0)
        self.is_compared = False  # whether ranks have once made the same step
        self.cuts = collections.deque(maxlen=_CUTS)
        self.apart, self._loaded_sums = [], []  # the latter of a checkpoint, for gradients that are not there yet
        self.pace = Pace()
        self._is_common = self._is_apart = False  # in what is drawn: for a while, and in loops whose batches are shared
        # of such a loop that is over: this rank's streams, and the seed behind it
        self._own_streams, self._common_seed = None, None
        self._seed, self._extra_seed, self._common = None, 0, self.from_first(streams(torch))
        restore(torch, self._common)
        keep_small_apart()
        self._room = room_of() if self.has_parts else None
        _average_what_schedules_see(self)
        if self.samples.size > 1:
            batch_parts.share_no_others(torch, self)
            consistency.follow_steps(torch, self)
        atexit.register(self._leave)
        watched.note_the_end()

    # --- what all ranks know

    def from_first(self, value):
        """Rank 0's value of a plain thing, in all ranks."""
        values = [value]
        self.guarded(self.distributed.broadcast_object_list, values, 0)
        return values[0]

    def gathered(self, value, axis=None):
        """Every rank's value of a plain thing, in all ranks; or in those along an axis."""
        values = [None] * (axis.size if axis else self.world)
        self.guarded(self.distributed.all_gather_object, values, value, group=axis and axis.group)
        return values

    def to_first(self, value):
        """Every rank's value of a plain thing, in the first; None in the others."""
        values = [None] * self.world if self.number == 0 else None
        self.guarded(self.distributed.gather_object, value, values, 0)
        return values

    def largest(self, numbers, axis):
        """The largest that a rank along an axis has at each place of a list, or of lists in it."""
        maxima = self.torch.tensor(numbers)
        self.guarded(self.distributed.all_reduce, maxima, self.distributed.ReduceOp.MAX, group=axis.group)
        return maxima.tolist()

    def total(self, number):
        """The sum of a number over all ranks that share out a batch."""
        total = self.torch.tensor([number], dtype=self.torch.float64)
        self.guarded(self.distributed.all_reduce, total, group=self.samples.group)
        return total.item()

    def compare_steps(self, turns, turn):
        """Ends ranks one of which makes another pass of a step that is over in others.

        Args:
            turns: the sum of what the ranks sent: 1 and -1 by turns in each step, and 0 behind a loop.
            turn: what this one sent.
        """
        rank_count = self.samples.size
        is_known = not turn or (rank_count <= _COUNTED and not turns.is_cuda)
        if is_known and abs(turns.item() - rank_count * turn) > 0.5:
            consistency.end_unlike_passes(self)

    def mean(self, value, weight):
        """The mean over all ranks of a number or a tensor; see modak_runtime.mean."""
        torch, count = self.torch, float(self.part[0] if weight is None else weight)
        tensor = torch.as_tensor(value).detach()
        sums = torch.cat([tensor.reshape(-1).double() * count if count else torch.zeros(tensor.numel()).double().to(
            tensor.device), tensor.new_tensor([count], dtype=torch.float64)])  # fmt: skip
        self.guarded(self.distributed.all_reduce, sums)
        means = sums[:-1] / sums[-1]
        if not isinstance(value, torch.Tensor):
            return means.item()
        return means.reshape(tensor.shape).to(tensor.dtype if tensor.is_floating_point() else torch.float32)

    def guarded(self, act, *arguments, **options):
        """What a step that all ranks make together gives; ends the process where another has gone."""
        try:
            return self.pace.waits(act, *arguments, **options)
        except Exception as error:  # of any kind
            return self.rank.end(
                "it lost another rank, whose own words say why, or waited for one that makes fewer steps: %s"
                % first_line(error)
            )

    # --- random numbers

    @contextlib.contextmanager
    def in_common(self):
        """Draws from streams that are the same in all ranks: those that one process would have drawn from."""
        if self._is_common or not self._is_apart:
            yield
            return
        torch = self.torch
        if self._take_seed():
            self.draws_apart()
        own = streams(torch)
        restore(torch, self._common)
        self._is_common = True
        try:
            yield
        finally:
            self._is_common = False
            self._common = streams(torch)
            restore(torch, own)

    def draws_own(self):
        """Whether this rank draws by itself what it draws now."""
        return self._is_apart and not self._is_common

    def _take_seed(self):
        """Whether the script has seeded PyTorch's stream since, and means what all ranks draw from here on."""
        is_seeded = self.torch.initial_seed() != self._seed
        if is_seeded:
            self._common = (self.torch.get_rng_state(), *self._common[1:])
        return is_seeded

    def _draws_alike(self):
        """Has ranks draw what one process would, until a loop begins whose batches are shared out."""
        self.turn, self.looks, self.part = None, None, (1, self.samples.size)
        if self._is_apart:
            self._take_seed()
            restore(self.torch, self.from_first(self._common))
            self._is_apart = False

    def takes_streams(self):
        """Takes that this rank's own streams were put where they once stood."""
        self._seed = self.torch.initial_seed()

    def passes_over(self):
        """Takes that the loop's batches so far were passed over, and nothing was to be learned from them."""
        if self.turn is not None:
            self.turn.given, self.turn.ahead = 0, False

    def shares_batches(self):
        """Takes that a loop begins whose batches are shared out.

        Outside of such loops ranks draw alike, lest each make batches, or an order of its files, of its own. Where the
        first rank alone has drawn since, as in a validation for all, the others go on from there.
        """
        is_main, is_first = threading.current_thread() is threading.main_thread(), self._own_streams is None
        begins = not self._is_apart
        if begins:
            self._is_apart, self._common = True, streams(self.torch)
            if is_first or self.torch.initial_seed() != self._common_seed:
                self.draws_apart()
            else:
                restore(self.torch, self._own_streams)
                self.takes_streams()  # which are of a loop before the last one, where that was left
        elif is_main and self._take_seed():
            self.draws_apart()
        if is_main or (begins and is_first):  # another thread may be beside what ranks sum
            self._common = self.from_first(self._common)

    def leaves_batches(self):
        """Takes that a loop is over whose batches were shared out: ranks draw alike again, as one process goes on."""
        if self._is_apart and threading.current_thread() is threading.main_thread():
            if self._take_seed():
                self.draws_apart()
            self._own_streams, self._is_apart = streams(self.torch), False
            restore(self.torch, self._common)
            self._common_seed = self.torch.initial_seed()

    @contextlib.contextmanager
    def in_own(self):
        """Draws from this rank's own streams, where it has some."""
        if self._own_streams is None or self._is_apart:
            yield
            return
        common = streams(self.torch)
        restore(self.torch, self._own_streams)
        yield
        self._own_streams = streams(self.torch)
        restore(self.torch, common)

    def draws_apart(self, extra_seed=None):
        """Gives each rank streams of its own, for dropout and augmentations; others from here on for another number."""
        self._extra_seed = self._extra_seed if extra_seed is None else extra_seed
        if not self._is_apart:
            return
        own = 1000003 * (self.samples.number + 1) + 1000000007 * self._extra_seed
        self._seed = (self.torch.initial_seed() + own) % 2**63
        self.torch.manual_seed(self._seed)
        random.seed(self._seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(self._seed % 2**32)

    # --- what prepare is given

    def prepare(self, report, objects):
        """Makes models alike, has their gradients averaged, and shares out the batches of loaders."""
        from modak_runtime.parallel import large_batch, local_steps

        torch = self.torch
        models = [item for item in objects if isinstance(item, torch.nn.Module)]
        loaders = [item for item in objects if isinstance(item, torch.utils.data.DataLoader)]
        optimizers = [item for item in objects if isinstance(item, torch.optim.Optimizer)]
        self._compare(models, loaders)
        self._look_for_another(report, models, optimizers)
        self._look_at(optimizers)
        self.optimizers.update(optimizers)
        parallel = torch.nn.parallel.DistributedDataParallel
        handled_ids, model_count = self.summed_ids(), len(self.models)
        for model in models:
            if any(isinstance(module, parallel) for module in model.modules()):  # the script does it itself
                handled_ids.update(map(id, model.parameters()))
                self.shares = False
                continue
            self._share_out(model, optimizers)
            parts = [parameter for parameter in model.parameters() if whole.is_part(parameter)]
            handled_ids.update(map(id, parts))
            self._sum(report, [part for part in parts if self.is_alike and stages.is_here(self, part)])
            self.learns = self.learns or self.has_parts
        for optimizer in optimizers if self.has_parts else ():
            whole.load_whole(torch, optimizer)
            consistency.compare_before_steps(self, optimizer)
            self._room.follow(optimizer)
        local_sgd = local_steps.apart(torch, self, report, optimizers)
        self.apart += [local_sgd] if local_sgd else []
        stepped = [
            [parameter for group in optimizer.param_groups for parameter in group["params"]] for optimizer in optimizers
        ]
        self.stepped.update(*stepped)
        groups = [*(list(model.parameters()) for model in models), *stepped]
        for number, group in enumerate(groups):
            parameters = [
                parameter for parameter in group
                if not (id(parameter) in handled_ids or whole.is_part(parameter)
                        or hasattr(parameter, "_modak_now"))  # its model was given
                and (parameter.is_floating_point() or parameter.is_complex())
            ]  # fmt: skip
            handled_ids.update(map(id, parameters))
            if parameters:
                if number >= len(models) or any(models[number] is other for other in self.models[:model_count]):
                    self._make_alike(parameters)
                self._sum(report, parameters)
                self.learns = True
        for gradients in self.gradients if self.apart else ():
            gradients.let_apart(self.apart[-1])
        self._take_sums()
        if report.ranks is None:
            name = self.strategy if self.mesh.named is None else "%s_%d" % (self.strategy, self.model.size)
            report.ranks = {"number": self.number, "world": self.world, "strategy": name}
            watched.begin(torch, report, self.rank, self.pace)
        large_batch.prepare(torch, self, report, optimizers, loaders)
        for loader in loaders:
            if self.is_alike and batch_parts.is_shared(torch, loader):
                self.rank.end(
                    "a loader has a DistributedSampler, and all ranks of %s need the same samples" % self.strategy
                )
            if self.samples.size > 1:
                batch_parts.share(torch, self, loader)

    def _look_for_another(self, report, models, optimizers):
        """Takes that another training may begin, where steps were made and there are other models."""
        if report.steps_made > self._training_start[0] and not all(
            any(model is known_model for known_model in self.models) for model in models
        ):
            self._training_start = report.steps_made, len(self.models), len(self.gradients)
            self.is_compared, self.shares = False, self.samples.size > 1
            self._draws_alike()
            if optimizers:  # else it is what follows the others, such as a mean of them
                self.stepped.clear()

    def _look_at(self, optimizers):
        """Says what optimizers mean for ranks."""
        lbfgs = any(isinstance(optimizer, self.torch.optim.LBFGS) for optimizer in optimizers)
        if lbfgs and self.has_parts:
            self.rank.end("LBFGS needs all parameters in one place: ddp can train with it, not %s" % self.strategy)
        if lbfgs:
            self.shares = False
            self._draws_alike()
            self.rank.say(
                "LBFGS looks at losses, which ranks have of their parts alone: each learns from the whole batch"
            )

    def _share_out(self, model, optimizers):
        """Makes a model alike in all ranks, or leaves each its part of it."""
        if any(model is other for other in self.models):
            return
        self._make_alike(tensor for tensor in [*model.parameters(), *model.buffers()] if not whole.is_part(tensor))
        if self.samples.size > 1:
            norm.share(self.torch, self, model)
        if self.has_parts:
            _SHARES_OUT[self.strategy](self.torch, self, model, optimizers)
        self.models.append(model)

    def _sum(self, report, parameters):
        """Has gradients be those of all samples, where ranks share them out."""
        from modak_runtime.parallel.gradients import Gradients

        if parameters and (self.samples.size > 1 or not self.is_alike):
            self.gradients.append(Gradients(self.torch, self, report, parameters))

    def is_training(self):
        """Whether a loop that begins now is taken for one that trains."""
        return (
            self.shares
            and self.learns
            and self.torch.is_grad_enabled()
            and (not self.models or any(model.training for model in self.present()[0]))
        )

    def has_part(self):
        """Whether the batch that a loop was given last is this rank's part of one."""
        return self.shares and self.turn is not None and self.turn.shares and self.looks is None

    def present(self):
        """The models and the sums of the training that goes on: behind its steps a script may begin one of others."""
        _, models, gradients = self._training_start
        if self.stepped.isdisjoint(parameter for model in self.models[models:] for parameter in model.parameters()):
            models = gradients = 0  # what follows the others alone, such as a mean of them, is no training
        return self.models[models:], self.gradients[gradients:]

    def summed_ids(self):
        """The ids of all parameters whose gradients ranks sum."""
        return {id(parameter) for gradients in self.gradients for parameter in gradients.parameters}

    def arrived(self, task):
        """Takes that a backward pass, by the number of its task, has left a gradient in a parameter."""
        self.arrivals += 1
        if task not in (self._task, -1):  # the latter behind it
            self._task, self.passes = task, self.passes + 1
            if not (self.is_compared or self.has_parts):
                self.trace.append(self.passes)
                consistency.compare_now(self)

    def say_once(self, words):
        """Has the first rank say something, however often it is seen."""
        if words not in self._printed:
            self._printed.add(words)
            self.rank.say(words)

    # --- steps of its own, and what is left from one sum to the next

    def is_apart(self):
        """Whether this rank steps by itself with a part of the batch that is worth it; the same in all ranks."""
        return bool(self.apart) and self.apart[-1].now and self.part[1] // self.samples.size > 1

    def meet(self):
        """Makes the models of all ranks alike, where they were let apart."""
        for local_sgd in self.apart:
            local_sgd.meet()

    def is_whole(self):
        """Whether all ranks are alike."""
        return not any(local_sgd.own_steps for local_sgd in self.apart)

    def own_state(self):
        """What this rank alone has, for a checkpoint."""
        sums = [gradients.way.state() for gradients in self.gradients]
        draws = {"draws": self.pipe.draws.tolist()} if self.pipe else {}
        return {"sums": sums, "steps": [local_sgd.steps for local_sgd in self.apart], **draws}

    def load_own(self, states, number):
        """Takes what ranks had; number: whose of them this is; None where they were others."""
        if self.pipe and number is not None and "draws" in states[number]:
            self.pipe.draws = self.torch.tensor(states[number]["draws"], dtype=self.torch.uint8)
        for local_sgd, steps in zip(self.apart, states[number or 0]["steps"] if states else ()):
            local_sgd.load(steps)
        self._loaded_sums = [([state["sums"][place] for state in states], number) for place in range(
            min(len(state["sums"]) for state in states))] if states else []  # fmt: skip
        self._take_sums()

    def _take_sums(self):
        for gradients in self.gradients if self._loaded_sums else ():
            if self._loaded_sums:
                gradients.way.load(*self._loaded_sums.pop(0))

    def _compare(self, models, loaders):
        """Ends the process where ranks were given different things, or what has no size yet."""
        unsized = self.torch.nn.parameter.UninitializedTensorMixin
        if any(isinstance(parameter, unsized) for model in models for parameter in model.parameters()):
            self.rank.end("a layer learns its size from its first batch: call the model with one before prepare")
        shapes = repr(
            [[(name, tuple(parameter.shape)) for name, parameter in model.named_parameters()] for model in models]
        )
        own_shapes = [hashlib.sha256(shapes.encode()).hexdigest()[:8], [length_of(loader) for loader in loaders]]
        shapes_by_rank = self.gathered(own_shapes)
        for number, other_shapes in enumerate(shapes_by_rank):
            if other_shapes != shapes_by_rank[0]:
                what = "models" if other_shapes[0] != shapes_by_rank[0][0] else "loaders, of %s and %s batches" % (
                    shapes_by_rank[0][1], other_shapes[1])  # fmt: skip
                self.rank.end("ranks 0 and %d were made with different %s: the script must make the same in each" % (
                    number, what))  # fmt: skip

    def _make_alike(self, tensors):
        """Gives all ranks what rank 0 has."""
        with self.torch.no_grad():
            for tensor in tensors:
                contents = tensor.detach().contiguous().clone()
                self.guarded(self.distributed.broadcast, contents, 0)
                tensor.copy_(contents)

    def _leave(self):
        with contextlib.suppress(Exception):
            if "nccl" in str(self.distributed.get_backend()):
                self.distributed.destroy_process_group()
            elif "gloo" in str(self.distributed.get_backend()):
                # Gloo's end may await its own thread. That lets go of the last tensors, for which it needs Python: were
                # there none any more, it would abort the process.
                time.sleep(_SETTLES)


def _average_what_schedules_see(ranks):
    """Lets a schedule that looks at losses look at those of all ranks, lest each have a rate of its own."""
    plateau = ranks.torch.optim.lr_scheduler.ReduceLROnPlateau
    step = plateau.step

    def of_all(self, metrics, *arguments, **options):
        return step(self, ranks.mean(float(metrics), 1), *arguments, **options)

    plateau.step = of_all
