"""Files of Python, as tests write them."""

from __future__ import annotations


def written(folder, **texts):
    """Writes them by their names without .py, with __ for /, and gives their paths below the folder."""
    paths = [f"{name.replace('__', '/')}.py" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return paths
