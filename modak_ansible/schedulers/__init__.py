"""One folder per scheduler: the job script from a plan, and a job's state from its commands' output.

All but ``script.py`` and each ``directives.py`` also runs on targets, where only the standard library of Python 3.8 and
later is available.
"""
