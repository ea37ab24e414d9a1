"""A model in ONNX form as a module of PyTorch's whose weights are trained; onnx2torch knows the operators."""

import collections
from importlib import import_module

_OPSET = 17  # the newest that onnx2torch knows all of
_OLDEST = 13  # since when axes and the like mean what they mean there
# What a constant there says is how something is done, and is not learned.
_SETTINGS = ("Cast", "Clip", "Equal", "Greater", "Less", "Pad", "Pow", "Range", "Resize", "Where")


def load(path):
    """See modak_runtime.load_onnx."""
    try:
        onnx, onnx2torch = import_module("onnx"), import_module("onnx2torch")
        registry = import_module("onnx2torch.node_converters.registry")
    except ImportError as error:
        message = "load_onnx needs the packages onnx and onnx2torch: add requirements_txt: [ onnx, onnx2torch ] (%s)"
        raise ImportError(message % error) from error
    with open(path, "rb"):  # a message of its own where it is not there
        pass
    try:
        model = onnx.load(path)
        _check(path, model, registry, onnx)
        model = _converted(model, registry, onnx)
        _apart(model, onnx)
        module = onnx2torch.convert(model)
    except _Refused:
        raise
    except Exception as error:  # of three packages, each with its own
        reason = " ".join(str(error).split())[:300]
        raise ValueError("%s cannot be converted to a PyTorch model: %s" % (path, reason)) from error
    _learn(path, module, model.graph, onnx.numpy_helper.to_array)
    return module


class _Refused(ValueError):
    """It is known beforehand that a model cannot be trained."""


def _known(registry):
    return {converter.operation_type for converter in registry._CONVERTER_REGISTRY if converter.domain == ""}


def _check(path, model, registry, onnx):
    """Raises what is told of operators that nothing knows, neither by itself nor by what it is made of."""
    known_operators, version = _known(registry), _opset(model)
    unknown = set()
    for node in model.graph.node:
        is_made = any((function.domain, function.name) == (node.domain, node.op_type) for function in model.functions)
        if not is_made and node.domain in ("", "ai.onnx") and onnx.defs.has(node.op_type):
            schema = onnx.defs.get_schema(node.op_type, version)
            is_made = schema.has_function or schema.has_context_dependent_function
        if node.op_type not in known_operators and not is_made:
            unknown.add(node.op_type)
    if unknown:
        raise _Refused("%s has operators that cannot be trained: %s" % (path, ", ".join(sorted(unknown))))


def _opset(model):
    return next((imported.version for imported in model.opset_import if imported.domain in ("", "ai.onnx")), 0)


def _converted(model, registry, onnx):
    """The model in an opset whose operators onnx2torch knows."""
    inliner, version_converter = import_module("onnx.inliner"), import_module("onnx.version_converter")
    version = _opset(model)
    if _OLDEST <= version <= _OPSET and not model.functions:
        return model
    # what is made of simpler ones, such as Gelu, and is not in that opset, becomes these
    kept = [("", name) for name in _known(registry) if onnx.defs.has(name, _OPSET)]
    model = inliner.inline_selected_functions(model, kept, exclude=True, inline_schema_functions=True)
    values = {weight.name: onnx.numpy_helper.to_array(weight) for weight in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Reshape" and 0 not in values.get(node.input[1], ()):  # allowzero says what a 0 would mean
            del node.attribute[:]
    return version_converter.convert_version(model, _OPSET)


def _apart(model, onnx):
    """Undoes what exporters do to equal weights: what is one by chance, such as biases of zeros, is several again."""
    values = {weight.name: weight for weight in model.graph.initializer}
    outputs = {output.name for output in model.graph.output}
    renamed = {}
    for node in list(model.graph.node):
        if node.op_type == "Identity" and node.input[0] in values and node.output[0] not in outputs:
            renamed[node.output[0]] = node.input[0]
            model.graph.node.remove(node)
    seen = set()
    for node in model.graph.node:
        for position, argument in enumerate(node.input):
            name = renamed.get(argument, argument)
            if name in seen and _is_even(onnx.numpy_helper.to_array(values[name])):
                another = model.graph.initializer.add()
                another.CopyFrom(values[name])
                another.name = "%s (%d)" % (name, len(model.graph.initializer))
                node.input[position] = another.name
            else:
                node.input[position] = name
                seen.update({name} & values.keys())


def _is_even(array):
    return array.size == 0 or bool((array == array.flat[0]).all())


def _is_weight(name, value):
    """Whether a value was learned: no mask, and a single number only where it has a parameter's name, as fc.bias."""
    is_named = "." in name and "::" not in name
    return (
        value.is_floating_point()
        and value.dim() > 0
        and (value.numel() > 1 or is_named)
        and bool(value.isfinite().all())
    )


def _learn(path, module, graph, array):
    """Makes parameters of the weights that onnx2torch leaves as constants, one of each that several operators share."""
    torch = import_module("torch")
    values = {weight.name: torch.from_numpy(array(weight).copy()) for weight in graph.initializer}
    uses = collections.defaultdict(list)
    for node in graph.node:
        for name in node.input:
            uses[name].append(node.op_type)
    learned = [name for name, value in values.items() if set(uses[name]) - set(_SETTINGS) and _is_weight(name, value)]
    container = getattr(module, "initializers", torch.nn.Module())
    for buffer_name, value in list(container.named_buffers()):
        if any(torch.equal(values[name], value) for name in learned):
            delattr(container, buffer_name)
            container.register_parameter(buffer_name, torch.nn.Parameter(value))
    places = [
        (owner, name, value) for owner in module.modules() for name, value in owner.named_parameters(recurse=False)
    ]
    for name in (weight_name for weight_name in learned if len(uses[weight_name]) > 1):
        same = [(owner, attribute) for owner, attribute, value in places if torch.equal(value.data, values[name])]
        if len(same) < len(uses[name]):
            kinds = ", ".join(uses[name])
            raise _Refused(
                "%s has %s in several operators (%s), each of which would train a copy" % (path, name, kinds)
            )
        parameter = torch.nn.Parameter(values[name])
        for owner, attribute in same:
            setattr(owner, attribute, parameter)
