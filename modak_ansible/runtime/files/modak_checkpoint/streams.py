"""The streams of random numbers of a process: those of Python, of NumPy and of PyTorch, as plain values."""

import random
import sys


def states():
    """Where each stream of a library that is imported stands."""
    version, inner, following = random.getstate()
    saved = {"python": [version, list(inner), following]}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, position, has_gauss, gauss = numpy.random.get_state()
        saved["numpy"] = [name, keys.tolist(), int(position), int(has_gauss), float(gauss)]
    torch = sys.modules.get("torch")
    if torch is not None:
        saved["torch"] = torch.get_rng_state().tolist()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            saved["cuda"] = [state.tolist() for state in torch.cuda.get_rng_state_all()]
    return saved


def restore(saved):
    """Puts the streams where they stood; a library that is not imported draws nothing."""
    version, inner, following = saved["python"]
    random.setstate((version, tuple(inner), following))
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and "numpy" in saved:
        name, keys, position, has_gauss, gauss = saved["numpy"]
        numpy.random.set_state((name, numpy.array(keys, numpy.uint32), position, has_gauss, gauss))
    if torch is not None and "torch" in saved:
        torch.set_rng_state(_of(torch, saved["torch"]))
        if "cuda" in saved and torch.cuda.is_available():
            states = saved["cuda"][: torch.cuda.device_count()]  # there may be fewer than before
            torch.cuda.set_rng_state_all([_of(torch, state) for state in states])


def of_loader(loader):
    """The generators of PyTorch that a loader or its sampler draws from, where it has its own."""
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    holders = [loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)]
    generators = [getattr(holder, "generator", None) for holder in holders]
    unique = {id(generator): generator for generator in generators if isinstance(generator, torch.Generator)}
    return list(unique.values())


def loader_states(loader):
    """Where the generators of a loader stand."""
    return [generator.get_state().tolist() for generator in of_loader(loader)]


def restore_loader(loader, saved):
    """Puts the generators of a loader where they stood."""
    for generator, state in zip(of_loader(loader), saved):
        generator.set_state(_of(sys.modules["torch"], state))


def _of(torch, state):
    return torch.tensor(state, dtype=torch.uint8)
