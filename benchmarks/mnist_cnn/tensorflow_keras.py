"""The MNIST-CNN in TensorFlow 2, by Keras 3: a Sequential model and fit, or a training step of its own.

Not named tensorflow.py, because then `import tensorflow` would find this file.
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # warnings and errors, without the greeting

import common
import keras
import keras_model
import keras_steps
import numpy as np
import reference
import tensorflow as tf
from arguments import refuse
from recorder import Recorder
from resuming import resume

SWITCHES = {
    "compiler": ("none", "xla"),
    "precision": ("fp32", "tf32", "bf16"),
    "input": ("memory", "tfdata"),
    "step_loop": ("plain", "whole"),
}


def configure(arguments):
    """Sets what holds for the whole process; returns whether there is an accelerator."""
    gpu = bool(tf.config.list_physical_devices("GPU"))
    if arguments.precision == "tf32" and not gpu:
        refuse("precision", "tf32", "it needs an NVIDIA GPU")
    if arguments.step_loop == "whole" and arguments.input == "tfdata":
        refuse("step_loop", "whole", "it takes its images from memory: it needs --input memory")
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)  # the layers follow one another
    tf.config.experimental.enable_tensor_float_32_execution(arguments.precision == "tf32")
    if arguments.precision == "bf16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    keras.utils.set_random_seed(arguments.seed)  # the dropout's
    return gpu


def pipeline(images, labels, order, batch_size):
    """Returns the steps of an epoch as a tf.data pipeline, which makes each image from its bytes."""
    pixels, labels = tf.constant(np.rint(images * 255).astype(np.uint8)), tf.constant(labels)

    def example(number):
        return tf.cast(pixels[number], tf.float32) / 255, labels[number]

    numbers = tf.data.Dataset.from_tensor_slices(order)
    return numbers.map(example, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size).prefetch(tf.data.AUTOTUNE)


def own_epoch(model, recorder, arguments, data, progress):
    """Returns what trains one epoch where the switches want another way than fit in memory; None where they do not."""
    if arguments.step_loop == "whole":
        images, labels = data.train_images[..., None], data.train_labels
        step = keras_steps.own_step(tf, model, images, labels, arguments.compiler)

        def run_steps(steps):
            for numbers in progress.batches(steps):
                recorder.step_ends(step(tf.constant(numbers)), len(numbers))

        return run_steps
    if arguments.input == "tfdata":
        images, labels = data.train_images[..., None], data.train_labels

        def fit_pipeline(steps):
            steps = steps[progress.step :]
            if not steps:
                return
            callbacks = [keras_steps.steps_callback(keras, recorder, steps), progress.callback()]
            order = np.concatenate(steps)
            model.fit(pipeline(images, labels, order, arguments.batch_size), callbacks=callbacks, verbose=0)

        return fit_pipeline
    return None


def gradients(model, images, labels):
    """Returns the gradients of a batch of numpy arrays, without dropout."""
    with tf.GradientTape() as tape:
        loss = keras_steps.loss_of(tf, model, images[..., None], labels, training=False)
    return [tf.cast(each, tf.float32).numpy() for each in tape.gradient(loss, model.trainable_variables)]


def main():
    """Trains and measures, as the command line asks."""
    arguments = common.parse_arguments("TensorFlow", SWITCHES)
    gpu, whole = configure(arguments), arguments.step_loop == "whole"
    versions = [("tensorflow", tf.__version__), ("keras", keras.__version__)]
    synchronise = tf.experimental.sync_devices if gpu else None
    recorder = Recorder(common.WORKLOAD, arguments, "TensorFlow", versions, synchronise, deferred=gpu and whole)

    with recorder.timed("load_data"):
        data = common.load_data(arguments)

    model = keras_model.network(keras, arguments.dropout)
    keras_model.set_weights(model, arguments.seed)
    keras_model.compile_model(keras, model, arguments, jit_compile=arguments.compiler == "xla")
    if arguments.check_gradients:
        reference.check(arguments, data, recorder, lambda images, labels: gradients(model, images, labels))
    progress = resume(model=model, recorder=recorder)
    common.begin(recorder, data, keras_model.parameters(model))
    fit_epoch = own_epoch(model, recorder, arguments, data, progress)
    keras_model.train(keras, model, recorder, arguments, data, fit_epoch, progress=progress)


if __name__ == "__main__":
    main()
