"""Runs at the start of every Python of a job, before its script: lets the plan's choices act, then the site's own file.

Without a plan, or in a Python before 3.8, it does nothing but give way. It must be readable for Python 2.7.
"""

import os
import sys


def _begin():
    if sys.version_info < (3, 8) or not (os.environ.get("MODAK_CHOICES") or os.environ.get("MODAK_APPLIED")):
        return
    try:
        from modak_runtime import hooks

        hooks.install()
    except Exception as error:  # the border: whatever is wrong with us, the training goes on as it was written
        sys.stderr.write("modak: the plan's choices cannot be applied in this process: %r\n" % (error,))


def _give_way():
    """Runs the sitecustomize that this one hides, such as the distribution's; its errors are its own."""
    here = os.path.dirname(os.path.abspath(__file__))
    path_without_this = [path for path in sys.path if os.path.abspath(path) != here]
    if sys.version_info[0] == 2:
        _give_way_in_python_2(path_without_this)
        return
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize", path_without_this)
    if spec is None or spec.loader is None:
        return
    import importlib.util  # which is slow to import, and seldom needed

    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _give_way_in_python_2(path_without_this):
    import imp

    try:
        module_found = imp.find_module("sitecustomize", path_without_this)
    except ImportError:
        return
    try:
        imp.load_module("sitecustomize", *module_found)
    finally:
        if module_found[0]:
            module_found[0].close()


_begin()
_give_way()
