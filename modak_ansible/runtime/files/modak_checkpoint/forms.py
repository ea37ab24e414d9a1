"""How a checkpoint lies in its file: as PyTorch saves it, or as arrays of NumPy. Loading it runs no code."""

import json


class Tensors:
    """A state of plain values and tensors, by torch.save and torch.load with weights only.

    Args:
        torch: the module.
        maps: whether tensors are read from the file where they are looked at, by ranks that need parts of them.
    """

    def __init__(self, torch, maps=False):
        self._torch, self._options = torch, {"mmap": True} if maps else {}

    def save(self, state, path):
        self._torch.save(state, path)

    def load(self, path):
        return self._torch.load(path, map_location="cpu", weights_only=True, **self._options)


class Arrays:
    """A state of plain values and arrays, in one file of NumPy: the arrays, and JSON that says where each belongs."""

    def __init__(self, numpy):
        self._numpy = numpy

    def save(self, state, path):
        arrays = {}
        plain = json.dumps(self._flatten(state, arrays), allow_nan=True)
        with open(path, "wb") as file:
            self._numpy.savez(file, plain=self._numpy.frombuffer(plain.encode(), self._numpy.uint8), **arrays)

    def load(self, path):
        with self._numpy.load(path, allow_pickle=False) as file:
            return self._unflatten(json.loads(file["plain"].tobytes().decode()), file)

    def _flatten(self, value, arrays):
        if isinstance(value, self._numpy.ndarray):
            name = "array%d" % len(arrays)
            arrays[name] = value
            return {"array": name}
        if isinstance(value, self._numpy.generic):
            return value.item()
        if isinstance(value, dict):
            return {"map": [[name, self._flatten(item, arrays)] for name, item in value.items()]}
        if isinstance(value, (list, tuple)):
            return [self._flatten(item, arrays) for item in value]
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise TypeError("a state holds %s, which is not a number, string or array" % type(value).__name__)

    def _unflatten(self, value, arrays):
        if isinstance(value, list):
            return [self._unflatten(item, arrays) for item in value]
        if isinstance(value, dict):
            if "array" in value:
                return arrays[value["array"]]
            return {name: self._unflatten(item, arrays) for name, item in value["map"]}
        return value
