"""What of a network several ranks, or steps, can have one part after the other: layers that are alike, and others."""

from modak_runtime.tensors import size_of

_RANKS = (2, 3, 4, 6, 8, 12, 16, 32, 64)  # for which stages are looked at


def repeated(torch, model):
    """Groups of modules of one kind, several in one container, which give the same when they compute again.

    One with a batch norm does not: it would count its batch twice.
    """
    norm, all_groups = torch.nn.modules.batchnorm._NormBase, []

    def may_repeat(child):
        is_made_of_others = any(True for _ in child.children())
        is_called = type(child).forward is not torch.nn.Module.forward
        return is_made_of_others and is_called and not any(isinstance(part, norm) for part in child.modules())

    def look_into(module):
        kinds = {}
        for child in module.children() if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) else ():
            if may_repeat(child):
                kinds.setdefault(type(child), []).append(child)
        groups = [group for group in kinds.values() if len(group) > 1]
        all_groups.extend(groups)
        grouped_ids = {id(member) for group in groups for member in group}
        for child in module.children():
            if id(child) not in grouped_ids:
                look_into(child)

    look_into(model)
    return all_groups


def widths_of(torch, models):
    """Bytes of parameters that ranks can split, by the number that theirs has to divide."""
    from modak_runtime.parallel.split import widths

    sizes = {}
    for model in models:
        for width, size in widths(torch, model).items():
            sizes[str(width)] = sizes.get(str(width), 0) + size
    return sizes


def stages_of(torch, models):
    """Bytes of the parameters of the largest stage of so many; 0 where a model has fewer layers."""
    from modak_runtime.parallel.stages import stages

    largest = {}
    for ranks in _RANKS:
        of_models = [stages(torch, model, ranks) for model in models]
        fit = all(len(model_stages) == ranks for model_stages in of_models)
        sizes = [[sum(map(size_of, stage)) for stage in model_stages] for model_stages in of_models]
        largest[str(ranks)] = max(map(sum, zip(*sizes)), default=0) if fit else 0
    return largest


def units_of(torch, model):
    """Bytes of what is whole at one time where a model's parameters are shared out; the last: for the whole pass."""
    from modak_runtime.parallel.sharded import units

    sizes, inner = [], set()
    for unit in [*units(torch, model), model]:
        parameters = [parameter for parameter in unit.parameters() if parameter not in inner]
        inner.update(parameters)
        sizes.append(sum(map(size_of, parameters)))
    return sizes
