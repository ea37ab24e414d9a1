#!/bin/sh
# tensorflow-2.21-cpu: The TensorFlow project's CPU wheels for Linux (manylinux, x86-64), with oneDNN.
set -eu
interpreter=""
for each in python3.13 python3 python3.11 python3.12; do
    # one that starts: pyenv has commands for versions that it does not run
    version=$("$each" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2> /dev/null) || continue
    case "$version" in
    3.11 | 3.12 | 3.13)
        interpreter=$each
        break
        ;;
    esac
done
if [ -z "$interpreter" ]; then
    echo 'error: tensorflow-2.21-cpu needs Python 3.11 or 3.12 or 3.13 in PATH, and there is none that starts' >&2
    exit 1
fi
"$interpreter" -m venv "$1"
printf '%s\n' \
        'absl-py==2.5.1 --hash=sha256:721200f2f0e9960f2ca9dc3a2a706b201f5f75d812c158f059cbbe29eeafbdb8' \
        'astunparse==1.6.3 --hash=sha256:c2652417f2c8b5bb325c885ae329bdf3f86424075c4fd1a128674bc6fba4b8e8' \
        'certifi==2026.10.18 --hash=sha256:73191c47aaa79da394e8fee2dbc2ec827432cab56311122c9e47abf79e390f62' \
        'charset-normalizer==3.5.2 --hash=sha256:211d5a3eb6af8f513b8d4ca19a8c1b7accab1b5f0d3175f9826b03c1a920dc1f --hash=sha256:3d31298449090ab8d47b7b1b2a555ff73cac7ed438a08b7ac160980c7ebed649 --hash=sha256:7218e8f32b0956cfcd048fd42d9d5779809745ca1d86113ca56f66e7ae1549c4' \
        'flatbuffers==25.12.19 --hash=sha256:7634f50c427838bb021c2d66a3d1168e9d199b0607e6329399f04846d42e20b4' \
        'gast==0.7.0 --hash=sha256:99cbf1365633a74099f69c59bd650476b96baa5ef196fec88032b00b31ba36f7' \
        'google-pasta==0.2.0 --hash=sha256:b32482794a366b5366a32c92a9a9201b107821889935a02b3e51f6b432ea84ed' \
        'grpcio==1.85.1 --hash=sha256:83aced2a1c05648cee0de34e531351118b14c58238f0a61b43559ac8851647a8 --hash=sha256:a1a72d19c0ab84b4b73b6c47eeaade76d84b1973a51593ff1160a73df33d03d9 --hash=sha256:de520b1555ae445cdc4f8f1cc7ccba12a19992bfafa7c292ebe7fe1fe5da6c53' \
        'h5py==3.14.0 --hash=sha256:0cbd41f4e3761f150aa5b662df991868ca533872c95467216f2bec5fcad84882 --hash=sha256:723a40ee6505bd354bfd26385f2dae7bbfa87655f4e61bab175a49d72ebfc06b --hash=sha256:d90e6445ab7c146d7f7981b11895d70bc1dd91278a4f9f9028bc0c95e4a53f13' \
        'idna==3.20 --hash=sha256:ab7ae7122974553370f0bdb919e1a960b2cd1bc1ef0276416d896db81c14582c' \
        'keras==3.15.0 --hash=sha256:9bbd7df12b7b53500d00dc24d97b7e066c771260482cb7118de0b7687a7a2781' \
        'libclang==18.1.1 --hash=sha256:c533091d8a3bbf7460a00cb6c1a71da93bffe148f172c7d03b1c31fbf8aa2a0b' \
        'markdown-it-py==4.3.0 --hash=sha256:7aa1511a46c39138de78d9eba92ce47e63124d8003fc98b3a351909e04239efa' \
        'mdurl==0.1.2 --hash=sha256:84008a41e51615a49fc9966191ff91509e3c40b939176e643fd50a5c2196b8f8' \
        'ml-dtypes==0.6.0 --hash=sha256:26b1f1fa4f0435a2946859823f6e2bf06796f1e9f10f5a05b08a5e3c8f46ff69 --hash=sha256:3b4a480aa8fd54a1805b8ac10f3f91763926a74f73c0c364c10f9231854f4170 --hash=sha256:6c8e39b53e90afda8ce52859c93de4dba3e02b76d85dcf091cc469f9184c6dae' \
        'namex==0.1.0 --hash=sha256:e2012a474502f1e2251267062aae3114611f07df4224b6e06334c57b0f2ce87c' \
        'numpy==2.4.6 --hash=sha256:89cd468399cfd2504718f0ba50e410dca55a170b61a02ad92bb18c8a65186e93 --hash=sha256:90f9849678c75fe7afa2d348ac842c168b0a4d3d61919687216dfc547976d853 --hash=sha256:a7830bab239b79cda9c08c2da014761cafb48da6150e1da17ac06283f43b6089' \
        'opt-einsum==3.4.0 --hash=sha256:69bb92469f86a1565195ece4ac0323943e83477171b91d24c35afe028a90d7cd' \
        'optree==0.20.0 --hash=sha256:5c4ed341ea1ee7eb04eff01527b88a868cb19aac672a667e0aefadf7d14c0260 --hash=sha256:cd49b5a6066ebb027b37afa19f02d77e33067f33b0d5b7602b537e6892789d00 --hash=sha256:d1034c2cc02ec12ed413727664f015a681e2eea551e05640951b05b06c07f084' \
        'packaging==26.3 --hash=sha256:d7193f7c8e4e93f444fde0262bf90af30e16fa0ad0ad44cb553c87339b23cd1c' \
        'protobuf==7.36.2 --hash=sha256:89f23aa53c24553a2416fd4fd1ec06f74fa42b14b546d8883128813f775bbfd2' \
        'pygments==2.21.0 --hash=sha256:2363c69b61c4a97c838da3b130dcd6468f4848992b21a82f2a63ec34377137d9' \
        'requests==2.34.2 --hash=sha256:2a0d60c172f83ac6ab31e4554906c0f3b3588d37b5cb939b1c061f4907e278e0' \
        'rich==15.0.0 --hash=sha256:33bd4ef74232fb73fe9279a257718407f169c09b78a87ad3d296f548e27de0bb' \
        'setuptools==84.2.1 --hash=sha256:ca140b45d5325a9478f880e351484f62fef15f336462e449ca0c03c873d589c2' \
        'six==1.17.0 --hash=sha256:4721f391ed90541fddacab5acf947aa0d3dc7d27b2e1e8eda2be8970586c3274' \
        'tensorflow-cpu==2.21.0 --hash=sha256:05af7c26d35f4de910b5598c7b507e3981831a7b0f47fed9a405d995d51d7793 --hash=sha256:2b847d217b02ee7731ed91431daf3250daa0196c3c94614d23be27232e6e5b6c --hash=sha256:dcc8afd32930e42d5296b6ee19078b773706830af4ea97fbe503b9f5e0f820cb' \
        'termcolor==3.3.0 --hash=sha256:cf642efadaf0a8ebbbf4bc7a31cec2f9b5f21a9f726f4ccbb08192c9c26f43a5' \
        'typing-extensions==4.16.0 --hash=sha256:481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8' \
        'urllib3==2.8.0 --hash=sha256:0cf3cae568d36aa9576b28dfb35f11328f1cb974ca7647d9475ebb86c75ac6e3' \
        'wheel==0.48.0 --hash=sha256:3217dcc807155e45db462d7ef2431f5ddda0d7273b700d05a67b271ceb1287ab' \
        'wrapt==2.5.2 --hash=sha256:0743950d3dda9940e56f81f5334ba051c4fe2e1421e4e4a4ef8eb8fb86a90894 --hash=sha256:092472b7b1494deef40dac5e9f6295013a9d51b112b5fbc4350f64dc2574e46a --hash=sha256:8b039b3a296762db1908d6108365225393c4fb33c1dbc5f00aa36f8302eaeaa0' \
        > "$1/locked.txt"
"$1/bin/python" -m pip install --disable-pip-version-check --no-cache-dir --no-deps --no-build-isolation --require-hashes -r "$1/locked.txt"
mkdir -p "$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tensorflow-2.21.0.dist-info" && printf '%s\n' 'Metadata-Version: 2.1' 'Name: tensorflow' 'Version: 2.21.0' > "$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tensorflow-2.21.0.dist-info"/METADATA
"$1/bin/python" -m pip list --format=freeze > "$1/installed.txt"
printf '%s\n' tensorflow-text==2.21.1 'tensorflow-addons<0' 'tensorflow-cpu-aws<0' 'tensorflow-gpu<0' 'tensorflow-intel<0' 'tensorflow-rocm<0' 'intel-tensorflow<0' 'tf-nightly<0' 'tf-nightly-cpu<0' 'keras-nightly<0' > "$1/companions.txt"
"$1/bin/python" -m pip install --disable-pip-version-check --no-cache-dir -c "$1/installed.txt" -c "$1/companions.txt" 'pandas>=2'
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
"$1/bin/python" "$1/try_requirements.py" "$1/installed.txt" '{"accelerated": false, "asked": ["pandas"], "modules": ["tensorflow"], "tries": {"tensorflow-text": "import tensorflow_text\nassert tensorflow_text.WhitespaceTokenizer().tokenize([\"one two\"]).to_list() == [[b\"one\", b\"two\"]]\n"}}' || exit 86
"$1/bin/python" -c 'import tensorflow as tf
kernel = tf.Variable(tf.ones((3, 3, 1, 4)))
with tf.GradientTape() as tape:
    total = tf.reduce_sum(tf.nn.conv2d(tf.ones((2, 8, 8, 1)), kernel, 1, "VALID"))
assert bool(tf.reduce_all(tf.math.is_finite(tape.gradient(total, kernel))))
print("tensorflow", tf.__version__)
' || exit 86
