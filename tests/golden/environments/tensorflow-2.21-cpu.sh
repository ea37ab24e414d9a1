#!/bin/sh
# tensorflow-2.21-cpu: The TensorFlow project's CPU wheels for Linux (manylinux, x86-64), with oneDNN.
set -eu
# one that starts: pyenv has commands for versions that it does not run
for interpreter in python3.13 python3; do
    if "$interpreter" -c "" 2> /dev/null; then break; fi
done
"$interpreter" -m venv "$1"
"$1/bin/python" -m pip install --disable-pip-version-check --no-cache-dir tensorflow-cpu==2.21.0 keras==3.15.0 numpy==2.4.6
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
"$1/bin/python" -c 'import tensorflow as tf
kernel = tf.Variable(tf.ones((3, 3, 1, 4)))
with tf.GradientTape() as tape:
    total = tf.reduce_sum(tf.nn.conv2d(tf.ones((2, 8, 8, 1)), kernel, 1, "VALID"))
assert bool(tf.reduce_all(tf.math.is_finite(tape.gradient(total, kernel))))
print("tensorflow", tf.__version__)
' || exit 86
