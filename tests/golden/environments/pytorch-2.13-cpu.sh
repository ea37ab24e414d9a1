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
"$1/bin/python" -m pip list --format=freeze > "$1/installed.txt"
printf '%s\n' torchvision==0.28.0+cpu torchaudio==2.11.0+cpu 'torchtext<0' > "$1/companions.txt"
{ "$1/bin/python" -m pip install --disable-pip-version-check --no-cache-dir -c "$1/installed.txt" -c "$1/companions.txt" 'pandas>=2' || "$1/bin/python" -m pip install --disable-pip-version-check --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu --retries 1 -c "$1/installed.txt" -c "$1/companions.txt" 'pandas>=2'; }
printf '%s\n' \
        '"""Tries the packages that were installed on top of a framework: in its image, or its environment.' \
        '' \
        'Arguments: the file with what was there before, as pip lists it, or ""; a JSON object with the names of what the user' \
        'asked for (asked), the framework'"'"'s modules (modules), code that runs an operator of a package, by its name' \
        '(tries), and whether accelerators are there (accelerated). Ends with 1 and a line that begins with "error:".' \
        'Its Python is that of the image, from 2.7 on.' \
        '"""' \
        '' \
        'from __future__ import print_function' \
        '' \
        'import ctypes' \
        'import importlib' \
        'import json' \
        'import os' \
        'import re' \
        'import sys' \
        '' \
        'LIBRARY = re.compile(r"\.so(\.\d+)*$")' \
        'OTHER_MODULES = ("test", "tests", "doc", "docs", "example", "examples", "benchmark", "benchmarks", "scripts", "tools")' \
        'ACCELERATED = re.compile(r"cuda|cudnn|cublas|nccl|nvidia|hip|roc|gpu|tpu", re.IGNORECASE)' \
        'KEYS = ("CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")' \
        '' \
        '' \
        'class Distribution(object):' \
        '    """An installed package: its name and version, and the paths of its files."""' \
        '' \
        '    def __init__(self, information):' \
        '        lines = read(information, "METADATA") or read(information, "PKG-INFO")' \
        '        fields = dict(line.split(": ", 1) for line in reversed(lines) if re.match(r"(Name|Version): ", line))' \
        '        self.name, self.version = plain(fields.get("Name", "")), fields.get("Version", "")' \
        '        top = os.path.dirname(information)' \
        '        listed = [line.split(",")[0].strip('"'"'"'"'"') for line in read(information, "RECORD")]' \
        '        older = [os.path.join(os.path.basename(information), path) for path in read(information, "installed-files.txt")]' \
        '        self.files = [os.path.normpath(os.path.join(top, path)) for path in listed or older]' \
        '        self._below = [' \
        '            path for path in (os.path.relpath(path, top) for path in self.files) if not path.startswith("..")' \
        '        ]' \
        '' \
        '    def modules(self):' \
        '        """What can be imported, the package'"'"'s own name first."""' \
        '        modules = set()' \
        '        for path in self._below:' \
        '            first, is_folder = path.split(os.sep)[0], os.sep in path' \
        '            if not is_folder and path.endswith((".py", ".so")):' \
        '                first = first.split(".")[0]' \
        '            elif not (is_folder and path.endswith((".py", ".so"))):' \
        '                continue' \
        '            if re.match(r"[A-Za-z]\w*$", first) and first not in OTHER_MODULES:' \
        '                modules.add(first)' \
        '        return sorted(modules, key=lambda module: (plain(module) != self.name, module))' \
        '' \
        '    def libraries(self):' \
        '        """The compiled files, without those of others that are packed with them."""' \
        '        libraries = [path for path in self.files if LIBRARY.search(path) and os.path.isfile(path)]' \
        '        return [path for path in libraries if not os.path.dirname(path).endswith(".libs")]' \
        '' \
        '' \
        'def plain(name):' \
        '    return re.sub(r"[-_.]+", "-", name).lower()' \
        '' \
        '' \
        'def read(folder, name):' \
        '    path = os.path.join(folder, name)' \
        '    if not os.path.isfile(path):' \
        '        return []' \
        '    with open(path, "rb") as file:' \
        '        return file.read().decode("utf-8", "replace").splitlines()' \
        '' \
        '' \
        'def installed():' \
        '    distributions = {}' \
        '    for folder in sys.path:' \
        '        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():' \
        '            if name.endswith((".dist-info", ".egg-info")) and os.path.isdir(os.path.join(folder, name)):' \
        '                distribution = Distribution(os.path.join(folder, name))' \
        '                distributions.setdefault(distribution.name, distribution)' \
        '    return distributions' \
        '' \
        '' \
        'def pinned(path):' \
        '    """The version of each package that was there before."""' \
        '    pairs = [line.strip().split("==", 1) for line in read(*os.path.split(path)) if "==" in line] if path else []' \
        '    return {plain(name): version for name, version in pairs}' \
        '' \
        '' \
        'def check_versions(distributions, before):' \
        '    for name, version in sorted(before.items()):' \
        '        if name in distributions and distributions[name].version != version:' \
        '            fail("%s is %s now, and the framework'"'"'s build has %s" % (name, distributions[name].version, version))' \
        '' \
        '' \
        'def check_files(distributions, new, before):' \
        '    """Two names of one package write over each other'"'"'s files, and pip says nothing."""' \
        '    owners = {path: name for name in before if name in distributions for path in distributions[name].files}' \
        '    for name in sorted(new):' \
        '        overwritten = [path for path in distributions[name].files if path in owners and path.endswith((".py", ".so"))]' \
        '        if len(overwritten) > 4 or any(path.endswith(".so") for path in overwritten):' \
        '            fail("%s has written over files of %s, such as %s" % (name, owners[overwritten[0]], overwritten[0]))' \
        '' \
        '' \
        'def import_all(distribution, say):' \
        '    """Imports what a package has; what is only beside it may want what is not there, such as a plugin of pytest'"'"'s."""' \
        '    modules, has_one = distribution.modules(), False' \
        '    for name in modules:' \
        '        say("importing " + name)' \
        '        try:' \
        '            importlib.import_module(name)' \
        '            has_one = True' \
        '        except ImportError as error:' \
        '            if not has_one or not str(error).startswith("No module named"):' \
        '                raise' \
        '' \
        '' \
        'def load_all(libraries, accelerated):' \
        '    """Loads the compiled files that no import has loaded: what they lack would be missed in a training."""' \
        '    with open("/proc/self/maps") as file:' \
        '        loaded = {line.split(None, 5)[5].strip() for line in file if len(line.split(None, 5)) > 5}' \
        '    for path in libraries:' \
        '        if os.path.realpath(path) in loaded:' \
        '            continue' \
        '        try:' \
        '            ctypes.CDLL(path)' \
        '        except OSError as error:' \
        '            if not accelerated and ACCELERATED.search(os.path.basename(path)):' \
        '                continue  # it says that it is for what is not here' \
        '            raise RuntimeError("%s cannot be loaded beside the framework: %s" % (path, error))  # noqa: B904' \
        '' \
        '' \
        'def operators():' \
        '    """The names of PyTorch'"'"'s operators, where it is there."""' \
        '    listed = getattr(getattr(sys.modules.get("torch"), "_C", None), "_dispatch_get_all_op_names", list)' \
        '    return set(listed())' \
        '' \
        '' \
        'def check_operators(names):' \
        '    has_kernel = sys.modules["torch"]._C._dispatch_has_kernel_for_dispatch_key' \
        '    for space in sorted({name.split("::")[0] for name in names}):' \
        '        own_names = [name for name in names if name.split("::")[0] == space]' \
        '        if not any(has_kernel(name, key) for name in own_names for key in KEYS):' \
        '            raise RuntimeError("no operator of %s, such as %s, runs on a processor" % (space, sorted(own_names)[0]))' \
        '' \
        '' \
        'def compiled_in(names, libraries):' \
        '    """The operators whose namespace a compiled file for PyTorch spells out: importing a package also loads parts of' \
        '    PyTorch that have operators of their own, and not all of those run everywhere."""' \
        '    compiled = set()' \
        '    for path in libraries:' \
        '        with open(path, "rb") as file:' \
        '            content = file.read()' \
        '        if b"libc10" in content or b"libtorch" in content:' \
        '            compiled |= {name for name in names if name.split("::")[0].encode("utf-8") in content}' \
        '    return compiled' \
        '' \
        '' \
        'def attempt(distributions, new, request, say):' \
        '    for name in request["modules"]:' \
        '        say("importing " + name)' \
        '        importlib.import_module(name)' \
        '    operators_before = operators()' \
        '    for name in request["asked"]:' \
        '        if name in distributions:' \
        '            import_all(distributions[name], say)' \
        '    added = operators() - operators_before' \
        '    libraries = [path for name in sorted(new) for path in distributions[name].libraries()]' \
        '    say("loading what was compiled")' \
        '    load_all(libraries, request["accelerated"])' \
        '    if added and not request["accelerated"]:' \
        '        check_operators(compiled_in(added, libraries))' \
        '    for name in sorted(set(request["tries"]) & set(new)):' \
        '        say("running an operator of " + name)' \
        '        exec(request["tries"][name], {})  # noqa: S102' \
        '' \
        '' \
        'def in_a_process(function):' \
        '    """Runs a function in a process of its own; what it says last tells what it did when it crashed."""' \
        '    sys.stdout.flush()' \
        '    reading, writing = os.pipe()' \
        '    child = os.fork()' \
        '    if not child:' \
        '        code = 1' \
        '        try:' \
        '            os.close(reading)' \
        '            function(lambda words: os.write(writing, (words + "\n").encode("utf-8")))' \
        '            code = 0' \
        '        except BaseException as error:' \
        '            words = " ".join(("%s: %s" % (type(error).__name__, error)).split())' \
        '            os.write(writing, ("!" + words + "\n").encode("utf-8"))' \
        '        finally:' \
        '            os._exit(code)' \
        '    os.close(writing)' \
        '    with os.fdopen(reading, "rb") as file:' \
        '        lines = file.read().decode("utf-8", "replace").splitlines()' \
        '    status = os.waitpid(child, 0)[1]' \
        '    if status:' \
        '        steps = [line for line in lines if not line.startswith("!")]' \
        '        words = lines[-1][1:] if lines and lines[-1].startswith("!") else "it ended with signal %d" % (status & 127)' \
        '        fail("%s: %s" % (steps[-1] if steps else "trying the packages", words))' \
        '' \
        '' \
        'def fail(words):' \
        '    print("error: " + words, file=sys.stderr)  # noqa: T201' \
        '    sys.exit(1)' \
        '' \
        '' \
        'def main(arguments):' \
        '    sys.path.pop(0)  # the folder of this script' \
        '    before, request = pinned(arguments[0]), json.loads(arguments[1])' \
        '    distributions = installed()' \
        '    request["asked"] = [plain(name) for name in request["asked"]]' \
        '    new = [name for name in distributions if (name not in before if before else name in request["asked"])]' \
        '    check_versions(distributions, before)' \
        '    check_files(distributions, new, before)' \
        '    in_a_process(lambda say: attempt(distributions, new, request, say))' \
        '    print("tried: " + " ".join("%s==%s" % (name, distributions[name].version) for name in sorted(new)))  # noqa: T201' \
        '' \
        '' \
        'if __name__ == "__main__":' \
        '    main(sys.argv[1:])' \
        > "$1/try_requirements.py"
printf '%s\n' \
        '"""Outside of a job this does nothing; a job of modak-ansible brings a module of this name that applies its plan."""' \
        '' \
        '' \
        'def prepare(*objects):' \
        '    """Returns what it is given, a single object by itself."""' \
        '    return objects[0] if len(objects) == 1 else objects' \
        '' \
        '' \
        'def mean(value, weight=None):' \
        '    """Returns the value of the one process that there is."""' \
        '    return value' \
        '' \
        '' \
        'def log(step=None, epoch=None, **numbers):' \
        '    """Keeps nothing."""' \
        > "$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/modak_runtime.py"
"$1/bin/python" -m pip check
"$1/bin/python" "$1/try_requirements.py" "$1/installed.txt" '{"accelerated": false, "asked": ["pandas"], "modules": ["torch"], "tries": {"torchaudio": "import torch, torchaudio\nassert torchaudio.functional.lfilter(torch.ones(1, 8), torch.tensor([1.0, 0.5]), torch.tensor([1.0, 0.0])).sum() > 0\n", "torchvision": "import torch, torchvision\nboxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9]])\nassert torchvision.ops.nms(boxes, torch.tensor([0.5, 0.9]), 0.5).tolist() == [1]\n"}}' || exit 86
"$1/bin/python" -c 'import torch
layer = torch.nn.Conv2d(1, 4, 3)
layer(torch.ones(2, 1, 8, 8)).sum().backward()
assert torch.isfinite(layer.weight.grad).all()
assert torch.compile(lambda x: x.sin() + x.cos())(torch.zeros(64)).sum() == 64
print("torch " + torch.__version__)
' || exit 86
