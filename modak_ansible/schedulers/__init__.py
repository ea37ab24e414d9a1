"""A folder a scheduler: its job script out of a plan, a job's state out of its commands' output.

All but ``script.py`` and each ``directives.py`` also runs on targets, where only the standard library of Python 3.8 and
later is to be had.
"""
