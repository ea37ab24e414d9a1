"""The streams of random numbers of a process: those of Python, of NumPy and of PyTorch, as plain values."""

import random
import sys


def states():
    """Where each stream of a library that is imported stands."""
    version, inner, following = random.getstate()
    found = {"python": [version, list(inner), following]}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, position, has_gauss, gauss = numpy.random.get_state()
        found["numpy"] = [name, keys.tolist(), int(position), int(has_gauss), float(gauss)]
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = torch.get_rng_state().tolist()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            found["cuda"] = [state.tolist() for state in torch.cuda.get_rng_state_all()]
    return found


def restore(found):
    """Puts the streams where they stood; a library that is not imported draws nothing."""
    version, inner, following = found["python"]
    random.setstate((version, tuple(inner), following))
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and "numpy" in found:
        name, keys, position, has_gauss, gauss = found["numpy"]
        numpy.random.set_state((name, numpy.array(keys, numpy.uint32), position, has_gauss, gauss))
    if torch is not None and "torch" in found:
        torch.set_rng_state(_of(torch, found["torch"]))
        if "cuda" in found and torch.cuda.is_available():
            states = found["cuda"][: torch.cuda.device_count()]  # there may be fewer than before
            torch.cuda.set_rng_state_all([_of(torch, state) for state in states])


def of_loader(loader):
    """The generators of PyTorch that a loader or its sampler draws from, where it has its own."""
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    holders = [loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)]
    found = [getattr(holder, "generator", None) for holder in holders]
    unique = {id(each): each for each in found if isinstance(each, torch.Generator)}
    return list(unique.values())


def loader_states(loader):
    """Where the generators of a loader stand."""
    return [generator.get_state().tolist() for generator in of_loader(loader)]


def restore_loader(loader, found):
    """Puts the generators of a loader where they stood."""
    for generator, state in zip(of_loader(loader), found):
        generator.set_state(_of(sys.modules["torch"], state))


def _of(torch, state):
    return torch.tensor(state, dtype=torch.uint8)
