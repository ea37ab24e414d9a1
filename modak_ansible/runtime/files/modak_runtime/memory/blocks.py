"""Blocks of a network that are alike and follow each other, such as the layers of a transformer."""


def repeated(torch, model):
    """Groups of modules of one kind, several in one container, which give the same when they compute again.

    One with a batch norm does not: it would count its batch twice.
    """
    norm, found = torch.nn.modules.batchnorm._NormBase, []

    def may_repeat(child):
        is_made_of_others = any(True for _ in child.children())
        is_called = type(child).forward is not torch.nn.Module.forward
        return is_made_of_others and is_called and not any(isinstance(each, norm) for each in child.modules())

    def look_into(module):
        kinds = {}
        for child in module.children() if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) else ():
            if may_repeat(child):
                kinds.setdefault(type(child), []).append(child)
        groups = [group for group in kinds.values() if len(group) > 1]
        found.extend(groups)
        taken = {id(each) for group in groups for each in group}
        for child in module.children():
            if id(child) not in taken:
                look_into(child)

    look_into(model)
    return found
