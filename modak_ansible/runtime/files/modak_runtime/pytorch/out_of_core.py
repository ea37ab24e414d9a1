"""A training whose state is larger than memory: it lies in files of the node's own disk.

Parameters, their gradients, the optimizer's state and what is saved for the backward pass are mapped from files. The
kernel keeps of them what there is room for, and writes the rest back. The numbers are those of the plain training, to
the bit: each parameter's step is taken by itself, which is how PyTorch's optimizers compute on processors anyway.

A file loses its name as soon as it is mapped: however the process ends, nothing is left of it.
"""

import functools
import importlib
import os
import shutil
import sys
import tempfile
import types

from modak_runtime.malloc import SMALLEST, return_what_is_freed
from modak_runtime.report import warn
from modak_runtime.tensors import is_dense, size_of

NO_ROOM = 73  # EX_CANTCREAT of sysexits.h

# Those that compute each parameter by itself.
_OPTIMIZERS = (
    "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "Muon", "NAdam", "RAdam", "RMSprop",
    "Rprop", "SGD",
)  # fmt: skip
_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")


class Files:
    """Makes tensors that lie in files of a folder, and knows them again.

    Attributes:
        parameters: where the memory of parameters begins; one that was freed since only keeps a tensor in memory.
    """

    def __init__(self, torch, folder):
        self._torch, self.folder = torch, folder
        return_what_is_freed()
        self._places = importlib.import_module("torch.utils.weak").WeakTensorKeyDictionary()
        self.parameters = set()

    def empty_like(self, tensor):
        """A tensor of the same form whose memory is a file's.

        The blocks are taken before they are mapped: a write to a mapping on a full disk would end the process with a
        signal.
        """
        size = size_of(tensor)
        descriptor, path = tempfile.mkstemp(prefix="modak-", dir=self.folder)
        try:
            os.posix_fallocate(descriptor, 0, size)
            flat = self._torch.from_file(path, shared=True, size=tensor.numel(), dtype=tensor.dtype)
        except OSError as error:
            _end("%s has no room for %d more bytes of the training: %s" % (self.folder, size, error.strerror))
        finally:
            os.close(descriptor)
            os.unlink(path)
        like = tensor if is_dense(tensor) else tensor.contiguous()
        return flat.as_strided(like.size(), like.stride())

    def copy_of(self, tensor):
        """The same numbers, in a file."""
        with self._torch.no_grad():
            return self.empty_like(tensor).copy_(tensor.detach())

    def keep(self, tensor):
        """Notes that the memory which a tensor has now is a file's."""
        self._places[tensor] = tensor.data_ptr()
        return tensor

    def has(self, tensor):
        """Whether a tensor's memory is still the one that it was given here."""
        return self._places.get(tensor) == tensor.data_ptr()

    def take(self, parameter):
        """Moves a parameter's numbers to a file, in their place."""
        if _is_large(parameter) and not self.has(parameter):
            parameter.data = self.copy_of(parameter)
            self.keep(parameter)
            self.parameters.add(parameter.untyped_storage().data_ptr())


_files = []  # those of this process


def imported(torch):
    """Lets parameters begin in files: a layer's are there before its numbers are drawn."""
    modules = sys.modules.get("torch.nn.modules.module")
    register = getattr(modules, "register_module_parameter_registration_hook", None)
    if register is None:  # before PyTorch 2.0: prepare says so
        return
    folder, problem = _folder()
    if problem:
        return
    _files.append(Files(torch, folder))

    def registered(_module, _name, parameter):
        if parameter is not None:
            _files[0].take(parameter)

    register(registered)


def prepare(torch, report, models, optimizers):
    """Has models and optimizers keep their numbers in files."""
    problem = _problem(torch, models, optimizers)
    folder, folder_problem = _folder()
    if problem or folder_problem:
        report.refused("memory", problem or folder_problem, "prepare")
        return
    if not _files:
        _files.append(Files(torch, folder))
    files = _files[0]
    parameters = [parameter for model in models for parameter in model.parameters()]
    needed = sum(size_of(parameter) * (1 if files.has(parameter) else 2) for parameter in parameters)
    free = shutil.disk_usage(folder).free
    if needed > free:
        _end("%s has %d bytes free, but the parameters and gradients need %d" % (folder, free, needed))
    for parameter in parameters:
        files.take(parameter)
        if files.has(parameter) and parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(functools.partial(_keep_gradient, files, []))
    for optimizer in optimizers:
        _step_alone(torch, files, optimizer)
    _save_for_backward(torch, files)
    size = sum(size_of(parameter) for parameter in parameters)
    report.applied("memory", "prepare", "%d bytes of parameters, and what belongs to them, are in %s" % (size, folder))


def _problem(torch, models, optimizers):
    """Why it cannot be done; empty where it can."""
    if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
        return "PyTorch %s does not report when a gradient is complete; 2.1 and later do" % torch.__version__
    if os.environ.get("MODAK_STRATEGY"):
        return "parallel ranks exchange their gradients in memory"
    if any(parameter.device.type != "cpu" for model in models for parameter in model.parameters()):
        return "the model is on an accelerator, whose memory cannot be in files"
    if not models or not optimizers:
        return "prepare was not given a model and its optimizer"
    for optimizer in optimizers:
        kind = type(optimizer)
        if kind.__name__ not in _OPTIMIZERS or kind.__module__.partition(".")[0] != "torch":
            return "%s may update several parameters together" % kind.__name__
    return ""


def _folder():
    """Where the files go, and why they cannot: empty where they can."""
    folder = os.environ.get("MODAK_SCRATCH") or tempfile.gettempdir()
    if not os.access(folder, os.W_OK | os.X_OK):
        return folder, "%s is not a folder that this job may write to" % folder
    kind = _file_system(os.path.realpath(folder))
    if kind in _IN_MEMORY:
        advice = "set scratch of the target to the node's own disk"
        return folder, "%s is itself in memory (%s); %s" % (folder, kind, advice)
    return folder, ""


def _file_system(folder):
    """The type of the file system of a folder, by /proc/self/mounts; empty where it does not tell."""
    longest, longest_kind = -1, ""
    try:
        with open("/proc/self/mounts") as mounts:
            for line in mounts:
                point, kind = line.split()[1:3]
                point = os.fsdecode(point.encode().decode("unicode_escape").encode("latin-1"))  # a space is \040
                inside = folder == point or folder.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= longest:  # a later mount hides an earlier one
                    longest, longest_kind = len(point), kind
    except (OSError, ValueError):
        pass
    return longest_kind


def _is_large(tensor):
    is_plain = str(tensor.layout) == "torch.strided" and tensor.device.type == "cpu"
    return is_plain and size_of(tensor) >= SMALLEST


def _keep_gradient(files, file_gradient, parameter):
    """Moves a gradient that is complete to its file; one that is summed on is in it already."""
    gradient = parameter.grad
    if gradient is None or not _is_large(gradient) or (file_gradient and gradient is file_gradient[0]):
        return
    if not file_gradient or file_gradient[0].stride() != gradient.stride():
        file_gradient[:] = [files.empty_like(gradient)]
    file_gradient[0].copy_(gradient)
    parameter.grad = file_gradient[0]


def _step_alone(torch, files, optimizer):
    """Has the optimizer take one parameter after the other, whose new state goes to a file before the next."""
    # hooks of a step are for the whole one
    original = getattr(type(optimizer).step, "__wrapped__", type(optimizer).step)

    def move_state(state):
        for name, value in state.items():
            if isinstance(value, torch.Tensor) and _is_large(value) and not files.has(value):
                state[name] = files.keep(files.copy_of(value))

    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        groups = self.param_groups
        try:
            for group in groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self.param_groups = [dict(group, params=[parameter])]
                        original(self)
                        move_state(self.state[parameter])
        finally:
            self.param_groups = groups
        return loss

    for state in optimizer.state.values():
        move_state(state)
    optimizer.step = types.MethodType(torch.optim.Optimizer.profile_hook_step(step), optimizer)


def _save_for_backward(torch, files):
    """Has large tensors that the backward pass needs wait for it in files, in all of this process."""

    def pack(tensor):
        # What is kept as it is must not hold what it comes from, which holds it.
        if not _is_large(tensor) or tensor.untyped_storage().data_ptr() in files.parameters:
            return tensor.detach()
        return files.copy_of(tensor)

    torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor).__enter__()


def _end(message):
    warn(message)
    sys.exit(NO_ROOM)
