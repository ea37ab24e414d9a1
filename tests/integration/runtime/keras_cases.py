"""What the hooks do to Keras, case by case; runs in the interpreter that has it, and says how it went."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import io
import json
import traceback

import keras
import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters import array_data_adapter
from modak_runtime.report import Report
from modak_runtime.steps import Steps
from modak_runtime.trainers import keras_input, keras_model

IMAGES = np.random.RandomState(0).rand(64, 8).astype("float32")
LABELS = np.arange(64) % 4
OWN = keras.Model.compile, keras.Model.fit, keras.Model.make_train_function


def trained(choices, data=None, compiled=None, layers=None, **fit):
    """The losses of a small training under some choices, the report, and its clock."""
    report = Report("", dict(word.split("=") for word in choices.split()))
    report.framework("keras", keras.__version__, 1.0)
    steps = Steps(report)
    keras.Model.compile, keras.Model.fit, keras.Model.make_train_function = OWN
    keras_model.imported(keras, report, steps)
    try:
        keras.utils.set_random_seed(1)
        model = keras.Sequential(layers or [keras.layers.Input((8,)), keras.layers.Dense(4)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer="sgd", loss=loss, **(compiled or {}))
        given = (IMAGES, LABELS) if data is None else (data,)
        history = model.fit(*given, epochs=2, verbose=0, shuffle=False, **fit)
    finally:
        keras.config.set_dtype_policy("float32")
    return history.history["loss"], report.as_dict(True)["choices"], steps


def case_steps_are_counted():
    _, _, steps = trained("", batch_size=16)
    assert (steps.count, steps.batch_size, steps.samples, steps.parameters) == (8, 16, 64, 36)
    _, choices, steps = trained("steps_per_execution=2", batch_size=16)
    assert (steps.count, choices["steps_per_execution"]["applied"]) == (8, "2")


def case_arrays_are_cut_without_the_tuning_of_tf_data():
    own, _, _ = trained("", batch_size=16)
    adapter = array_data_adapter.ArrayDataAdapter
    made, seen = adapter.get_tf_dataset, []
    adapter.get_tf_dataset = lambda self: seen.append(made(self)) or seen[-1]
    try:
        losses, choices, _ = trained("pipeline_tuning=off", batch_size=16)
        untuned = adapter.get_tf_dataset(array_data_adapter.ArrayDataAdapter(IMAGES, LABELS))
    finally:
        adapter.get_tf_dataset = made
    assert losses == own and choices["pipeline_tuning"]["applied"] == "off", choices
    assert untuned.options().autotune.enabled is False and seen[0].options().autotune.enabled is None


def case_the_script_s_own_word_stands():
    _, choices, _ = trained("compiler=xla", compiled={"jit_compile": False})
    assert "the script itself" in choices["compiler"]["reason"] and choices["compiler"]["applied"] is None
    own = [keras.layers.Input((8,)), keras.layers.Dense(4, dtype="float32")]
    _, choices, _ = trained("precision=bf16", layers=own)
    assert "of its layers itself" in choices["precision"]["reason"]


def case_a_compiler_of_another_backend():
    _, choices, _ = trained("compiler=inductor memory_format=channels_last")
    assert "does not have it" in choices["compiler"]["reason"] and choices["memory_format"]["applied"] is None


def case_what_the_compiler_cannot_do_is_done_without():
    class Odd(keras.layers.Layer):
        def call(self, x):
            return tf.py_function(lambda each: each, [x], tf.float32) if tf.executing_eagerly() else _odd(x)

        def compute_output_shape(self, shape):
            return shape

    def _odd(x):
        y = tf.py_function(lambda each: each, [x], tf.float32)
        y.set_shape(x.shape)
        return y

    layers = [keras.layers.Input((8,)), Odd(), keras.layers.Dense(4)]
    losses, choices, steps = trained("compiler=xla", layers=layers, batch_size=16)
    assert choices["compiler"]["applied"] is None and "it failed" in choices["compiler"]["reason"], choices
    assert len(losses) == 2 and np.isfinite(losses).all() and steps.count == 8 - 1  # the batch that it failed with


def pipeline():
    return tf.data.Dataset.from_tensor_slices((IMAGES, LABELS))


def case_a_steady_pipeline_is_kept():
    plain, _, _ = trained("", pipeline().map(lambda image, label: (image * 2, label)).batch(16))
    data = pipeline().map(lambda image, label: (image * 2, label)).batch(16)
    kept, choices, _ = trained("input=memory", data)
    assert kept == plain and choices["input"]["applied"] == "memory", choices


def case_pipelines_that_may_change_are_left_alone():
    def random(image, label):
        return image + tf.random.uniform(()), label

    for data, word in (
        (pipeline().shuffle(64).batch(16), "ShuffleDataset"),
        (pipeline().map(random).batch(16), "a different value"),
        (pipeline().batch(16).repeat(1), "RepeatDataset"),
    ):
        _, choices, _ = trained("input=memory", data)
        assert choices["input"]["applied"] is None and word in choices["input"]["reason"], choices


def case_too_large_a_pipeline():
    free = keras_input.free_memory
    keras_input.free_memory = lambda: 100
    try:
        _, choices, _ = trained("input=memory", pipeline().batch(16))
    finally:
        keras_input.free_memory = free
    assert "of the free memory" in choices["input"]["reason"]


def main():
    results = {}
    for name, act in sorted(globals().items()):
        if name.startswith("case_"):
            trouble = io.StringIO()
            try:
                act()
            except Exception:  # of any kind: the test that asks for it tells it
                traceback.print_exc(file=trouble)
            results[name] = trouble.getvalue()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
