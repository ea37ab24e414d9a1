"""What is traced once and asked of the allocator again for all that is alike: passes over sequences, optimisers' steps.

Recurrent layers that no library has PyTorch takes apart into operators, some 33 for each place of a GRU's sequence,
forth and back, which take as long to trace as others. A pass of one layer in one direction is traced aside, for other
layers and steps, too. Optimisers take each parameter by itself, in a dozen operators.
"""

import functools
import sys

from modak_runtime.memory.accelerator import name_of
from modak_runtime.memory.heap import Heap, Place

_TAKEN_APART = "gru", "rnn_relu", "rnn_tanh"
_CHANGING = {"radam"}  # which does otherwise from some step on


def take_steps(torch, trace):
    """Has what PyTorch's optimisers do to their parameters, in place, be traced once for all steps that are alike.

    Not for each parameter: some of what is made for one is given back while the next one has its own already.
    """
    for module in [module for name, module in sys.modules.items() if name.startswith("torch.optim.")]:
        name = module.__name__.rpartition(".")[2].lstrip("_")
        if hasattr(module, name) and name not in _CHANGING:
            setattr(module, name, _once(torch, trace, getattr(module, name)))


def _once(torch, trace, function):
    """A function that changes tensors in place, and is traced for the first of all calls that are alike."""
    known = {}

    @functools.wraps(function)
    def called(*lists, **options):
        key = _described(torch, [*lists, *options, *options.values()])
        if key in known:
            trace.again(*known[key], [])
            return
        noted = trace.noted(lambda: function(*lists, **options))
        if key is not None and noted is not None:
            known[key] = noted

    return called


def _described(torch, values):
    """All that decides what a function of tensors asks for; None where that is more than forms, words and kinds."""
    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.layout is not torch.strided:
                return None
            local = getattr(value, "_local_tensor", value)  # a rank's part
            parts = type(value), value.shape, value.dtype, value.device, local.shape, local.stride()
        elif isinstance(value, (list, tuple)):
            parts = _described(torch, value)
            if parts is None:
                return None
        elif isinstance(value, (bool, str, type(None))):
            parts = value
        elif isinstance(value, (int, float)):
            parts = type(value), not value
        else:
            return None
        found.append(parts)
    return tuple(found)


def take_passes(torch, trace, mode, found):
    """Has layers that are taken apart be traced once for passes over sequences that are alike.

    Args:
        mode: makes the trace's fake tensors.
        found: ``copies.Found``, of passes.
    """
    from torch._subclasses.fake_tensor import FakeTensor

    kind = _function(torch, trace, found)
    hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", lambda _ignored: None)

    def decide_all(given):
        """Whether sizes decide what a pass asks for: nothing looks at what it keeps, or has it otherwise."""
        are_plain = all(type(each) is FakeTensor and each.fake_device.type == "cpu" for each in given)
        return are_plain and kind.is_known and not torch.is_autocast_enabled("cpu") and hooks(False) is None

    def all_passes(layers, outputs, state, weights, has_biases, count, ways, dropout):
        each, states = len(weights) // (count * ways), []
        for layer in range(count):
            found = [
                kind.apply(layers, has_biases, outputs, state[place : place + 1], *weights[place * each :][:each])
                for place in range(layer * ways, (layer + 1) * ways)
            ]  # backwards as forwards: sizes alone count
            states += [last for _, last in found]
            outputs = torch.cat([output for output, _ in found], -1) if ways > 1 else found[0][0]
            if dropout and layer < count - 1:
                outputs = torch.dropout(outputs, dropout, True)
        return outputs, torch.cat(states) if len(states) > 1 else states[0]

    def of(layers):
        @functools.wraps(layers)
        def called(inputs, state, weights, *options):
            if not isinstance(weights, (list, tuple)):  # sequences are packed
                return layers(inputs, state, weights, *options)
            given = inputs, state, *weights
            if torch.overrides.has_torch_function(given):  # as of what lies in one stage
                return torch.overrides.handle_torch_function(called, given, inputs, state, weights, *options)
            has_biases, count, dropout, trains, is_both_ways, has_batch_first = options
            learns = torch.is_grad_enabled() and any(weight.requires_grad for weight in weights)
            if not decide_all(given) or (inputs.fake_mode is mode) != learns:
                return layers(inputs, state, weights, *options)
            outputs, ways = inputs.transpose(0, 1) if has_batch_first else inputs, 2 if is_both_ways else 1
            if learns:
                outputs, state = all_passes(
                    layers, outputs, state, weights, has_biases, count, ways, dropout if trains else 0
                )
            else:  # somebody else wants to know its sizes
                outputs, state = outputs.new_empty(*outputs.shape[:2], ways * state.shape[2]), torch.empty_like(state)
            return outputs.transpose(0, 1) if has_batch_first else outputs, state

        return called

    for name in _TAKEN_APART:
        setattr(torch._VF, name, of(getattr(torch._VF, name)))


def is_pass(node):
    """Whether a backward pass is of one."""
    return isinstance(getattr(node, "noted", None), _Noted)


def _function(torch, trace, found):
    """A function of one pass over a sequence that notes it, and its backward pass, in a trace.

    Its ``is_known`` says whether gradients had none of their own so far, of which only PyTorch knows.
    """
    known, autograd = {}, torch._C._autograd
    keeps_graph = getattr(autograd, "_get_current_graph_task_keep_graph", lambda: False)

    class Pass(torch.autograd.Function):
        is_known = True

        @staticmethod
        def forward(ctx, layers, has_biases, *given):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*given)
            forms = tuple((*_form(each), each.requires_grad) for each in given)
            key = layers, has_biases, forms
            if key not in known:
                known[key] = _Passes(torch, trace, found, layers, has_biases, forms)
            ctx.passes, ctx.noted = known[key], _Noted(trace)
            return tuple(ctx.noted.forth(*known[key].forth))

        @staticmethod
        def backward(ctx, *grads):
            given = ctx.saved_tensors
            if torch.is_grad_enabled():  # it is computed again as it is, and as it is from now on
                Pass.is_known = False
                given_grads = ctx.passes.grads(ctx.passes.run(*given), given, grads, create_graph=True)
            else:
                given_grads = ctx.noted.back(*ctx.passes.back(grads, keeps_graph()))
            return None, None, *given_grads

    return Pass


class _Passes:
    """Passes over sequences that are alike: what they ask for and give, as it was traced aside.

    Args:
        found: ``copies.Found``, of passes.
        layers: PyTorch's function of any number of layers.
        has_biases: whether they have.
        forms: sizes, strides and type of the sequence, of its first state and of each weight, and whether it learns.

    Attributes:
        forth: events, operators and outputs, see ``_Noted.forth``.
    """

    def __init__(self, torch, trace, found, layers, has_biases, forms):
        self._torch, self._trace, self._found, self._forms, self._outputs = torch, trace, found, forms, None
        self.run = lambda inputs, state, *weights: layers(
            inputs, state, weights, has_biases, 1, 0.0, True, False, False
        )
        self._key = layers.__name__, has_biases, forms
        self.forth = found.get(self._key, self._rehearse)

    def _rehearse(self):
        torch, self._place = self._torch, Place("host", Heap())
        with self._trace.aside(Place("host", Heap())), torch.enable_grad():
            self._given = [
                torch.empty_strided(shape, stride, dtype=getattr(torch, kind), requires_grad=learns)
                for shape, stride, kind, learns in self._forms
            ]
        with self._trace.aside(self._place) as table, torch.enable_grad():
            self._outputs = self.run(*self._given)
        return self._noted(0, table, self._outputs)

    def back(self, grads, keeps):
        """What the backward pass asks for and gives, as ``forth``.

        Args:
            grads: of outputs; None of those that nobody uses.
            keeps: whether there may be another one.
        """
        key = self._key, keeps, *map(_lies, grads)
        return self._found.get(key, lambda: self._rehearse_back(grads, keeps))

    def _rehearse_back(self, grads, keeps):
        if self._outputs is None:
            self._rehearse()
        begin, _ = self._place.heap.so_far
        with self._trace.aside(self._place) as table:
            found = self.grads(self._outputs, self._given, grads, retain_graph=keeps)
        noted = self._noted(begin, table, found)
        self._outputs = self._given = None
        return noted

    def grads(self, outputs, given, grads, **options):
        """Gradients of all that is given; None of what learns nothing."""
        learning = [tensor for tensor in given if tensor.requires_grad]
        used = [(output, grad) for output, grad in zip(outputs, grads) if grad is not None]
        if not used:
            return [None] * len(given)
        used_outputs, used_grads = zip(*used)
        found = iter(self._torch.autograd.grad(used_outputs, learning, used_grads, allow_unused=True, **options))
        return [next(found) if tensor.requires_grad else None for tensor in given]

    def _noted(self, begin, table, tensors):
        """Events from a place on, operators, and where tensors lie, with their sizes, strides and types."""
        forms = [
            None if tensor is None else (self._trace.block_of(tensor, self._place), _form(tensor)) for tensor in tensors
        ]
        return self._place.heap.asked(begin).tolist(), table.rows, forms


def _form(tensor):
    """Its sizes, strides and the name of its type."""
    return tuple(tensor.shape), tensor.stride(), name_of(tensor.dtype)


def _lies(grad):
    """How rows of gradients lie, which are taken place by place: not how far from each other these are."""
    return grad is not None and (grad.stride()[-1], grad.stride()[-2] == grad.shape[-1])


class _Noted:
    """A pass that is noted in a trace, with what it keeps for its backward pass."""

    def __init__(self, trace):
        self._trace, self._blocks, self._kept = trace, [], 0

    def forth(self, asked, rows, forms):
        """Notes events and operators; gives the tensors that lie in such blocks, of such sizes, strides and types."""
        self._trace.again(asked, rows, self._blocks)
        self._kept = len(self._blocks)
        return [self._lay(*form) for form in forms]

    def back(self, asked, rows, forms):
        self._trace.again(asked, rows, self._blocks)
        grads = [None if form is None else self._lay(*form) for form in forms]
        self._give_back(self._kept)
        return grads

    def _lay(self, number, form):
        block = None
        if number is not None:  # and not another tensor's, which lies there, too
            block, self._blocks[number] = self._blocks[number], None
        return self._trace.lay(form, block)

    def _give_back(self, begin):
        for block in filter(None, self._blocks[begin:]):
            self._trace.give_back(*block)
        del self._blocks[begin:]

    def __del__(self):
        self._give_back(0)
