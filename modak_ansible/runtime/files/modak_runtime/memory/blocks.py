"""Blocks of a network that are alike and follow each other, such as the layers of a transformer."""


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
