#!/bin/sh
# pytorch-2.13-cpu: The PyTorch project's wheels for Linux (manylinux, x86-64), with oneDNN and MKL.
set -eu
interpreter=""
for each in python3.13 python3 python3.11 python3.12 python3.14; do
    # one that starts: pyenv has commands for versions that it does not run
    version=$("$each" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2> /dev/null) || continue
    case "$version" in
    3.11 | 3.12 | 3.13 | 3.14)
        interpreter=$each
        break
        ;;
    esac
done
if [ -z "$interpreter" ]; then
    echo 'error: pytorch-2.13-cpu needs Python 3.11 or 3.12 or 3.13 or 3.14 in PATH, and there is none that starts' >&2
    exit 1
fi
"$interpreter" -m venv "$1"
printf '%s\n' \
        'filelock==4.2.11 --hash=sha256:020e229e4bb9d410fc799c07ddf45fa217cba970278f40b30751d94f309b69e2' \
        'fsspec==2026.9.0 --hash=sha256:8dd6e646e99ea382bd85f97a45e6b526a442d79423a7dc673f1e2756d05fcb5f' \
        'jinja2==3.1.6 --hash=sha256:85ece4451f492d0c13c5dd7c13a64681a86afae63a5f347908daf103ce6d2f67' \
        'markupsafe==3.0.4 --hash=sha256:434139499bb20b502ed3baa1f169e618f924a97e7a777fea1a49446d80106cf6 --hash=sha256:6da83a088f8ef93b2d483a8232a4dbf4d69d3d8496b568a03c56becac43e1808 --hash=sha256:8e124f974786f831d6043728e38296969d3579db8896fe004682f5758e613581 --hash=sha256:a8e9f292fcda89b324f2f5c91d13f1424a153e40fc2756f38ee23b15835ff300' \
        'mpmath==1.3.0 --hash=sha256:a0b2b9fe80bbcd81a6647ff13108738cfb482d481d826cc0e02f5b35e5c88d2c' \
        'networkx==3.6.1 --hash=sha256:d47fbf302e7d9cbbb9e2555a0d267983d2aa476bac30e90dfbe5669bd57f3762' \
        'numpy==2.4.6 --hash=sha256:89cd468399cfd2504718f0ba50e410dca55a170b61a02ad92bb18c8a65186e93 --hash=sha256:90f9849678c75fe7afa2d348ac842c168b0a4d3d61919687216dfc547976d853 --hash=sha256:a2c306dea656c12c68f51f4cea133cbe78ca7435eb28c735eac1d3ebe73be6e8 --hash=sha256:a7830bab239b79cda9c08c2da014761cafb48da6150e1da17ac06283f43b6089' \
        'setuptools==84.2.1 --hash=sha256:ca140b45d5325a9478f880e351484f62fef15f336462e449ca0c03c873d589c2' \
        'sympy==1.14.0 --hash=sha256:e091cc3e99d2141a0ba2847328f5479b05d94a6635cb96148ccb3f34671bd8f5' \
        'torch==2.13.0+cpu --hash=sha256:3fbf9c9d1f3c10c2d59d04aca426dee9ccc6ceb32d255c61e93acc3b4f75fae6 --hash=sha256:4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2 --hash=sha256:6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b --hash=sha256:d20fa53ee744502fa4c69818a720b05ca0d37abd055d4f6e66cae155114bc691' \
        'typing-extensions==4.16.0 --hash=sha256:481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8' \
        > "$1/locked.txt"
{ "$1/bin/python" -m pip install --disable-pip-version-check --no-cache-dir --no-deps --no-build-isolation --require-hashes -r "$1/locked.txt" || "$1/bin/python" -m pip install --disable-pip-version-check --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu --no-deps --no-build-isolation --require-hashes -r "$1/locked.txt"; }
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
