"""What runs on the target: only the standard library of Python 3.8 and later, and the pure scheduler code.

Ansible sends it there as module_utils (plugins/module_utils links to it).
"""
