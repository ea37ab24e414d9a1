#!/bin/sh
# pytorch-2.13-cpu: The PyTorch project's wheels for Linux (manylinux, x86-64), with oneDNN and MKL.
set -eu
# one that starts: pyenv has commands for versions that it does not run
for interpreter in python3.13 python3; do
    if "$interpreter" -c "" 2> /dev/null; then break; fi
done
"$interpreter" -m venv "$1"
"$1/bin/python" -m pip install --disable-pip-version-check --no-cache-dir torch==2.13.0+cpu numpy==2.4.6 || "$1/bin/python" -m pip install --disable-pip-version-check --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0+cpu numpy==2.4.6
"$1/bin/python" -m pip install --disable-pip-version-check --no-cache-dir 'pandas>=2'
printf '%s\n' \
        '"""Outside of a job this does nothing; a job of modak-ansible brings a module of this name that applies its plan."""' \
        '' \
        '' \
        'def prepare(*objects):' \
        '    """Returns what it is given, a single object by itself."""' \
        '    return objects[0] if len(objects) == 1 else objects' \
        > "$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/modak_runtime.py"
"$1/bin/python" -m pip check
"$1/bin/python" -c 'import torch
layer = torch.nn.Conv2d(1, 4, 3)
layer(torch.ones(2, 1, 8, 8)).sum().backward()
assert torch.isfinite(layer.weight.grad).all()
assert torch.compile(lambda x: x.sin() + x.cos())(torch.zeros(64)).sum() == 64
print("torch " + torch.__version__)
' || exit 86
