"""ResNet50 in the tf.keras of TensorFlow 1.14 and 2.1, under Python 2.7 or 3."""

from __future__ import absolute_import, division, print_function

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors; warnings are about files that only GPUs need

import architecture
import feeding
import keras_network
import numpy as np
import tensorflow as tf
from feeding import Feed, Score
from recorder import Recorder

SWITCHES = {
    "compiler": ("none", "xla"),
    "input": ("memory", "stream"),
}


class DecayedSGD(tf.keras.optimizers.SGD):
    """SGD whose weight decay is part of the gradient, as the other frameworks have it."""

    def _resource_apply_dense(self, grad, var, *state, **named):
        decayed = grad + feeding.WEIGHT_DECAY * var
        return super(DecayedSGD, self)._resource_apply_dense(decayed, var, *state, **named)


def configure(arguments):
    """Sets what holds for the whole process; one operation follows another."""
    xla = arguments.compiler == "xla"
    if xla:  # clusters of operations on processors too; read when the first graph is prepared
        os.environ["TF_XLA_FLAGS"] = os.environ.get("TF_XLA_FLAGS", "") + " --tf_xla_cpu_global_jit"
    if tf.__version__.startswith("1."):
        v1 = tf.compat.v1
        config = v1.ConfigProto(intra_op_parallelism_threads=arguments.threads, inter_op_parallelism_threads=1)
        if xla:
            config.graph_options.optimizer_options.global_jit_level = v1.OptimizerOptions.ON_1
        v1.keras.backend.set_session(v1.Session(config=config))
    else:
        tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        tf.config.optimizer.set_jit(xla)


def main():
    """Trains and measures, as the command line asks."""
    arguments = feeding.parse_arguments("TensorFlow", SWITCHES)
    versions = [("tensorflow", tf.__version__)]
    recorder = Recorder(feeding.workload(arguments), arguments, "TensorFlow", versions)
    configure(arguments)

    with recorder.timed("load_data"):
        feed = Feed(arguments)

    model = keras_network.network(tf.keras, arguments.image_size, arguments.classes)
    keras_network.set_weights(model, architecture.initial_weights(arguments.seed, arguments.classes))
    model.compile(
        optimizer=DecayedSGD(arguments.learning_rate, feeding.SGD_MOMENTUM),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    if arguments.check_gradients:
        print("the gradients are not compared: the scripts of PyTorch and JAX do that")
    trainable = sum(int(np.prod(weight.shape.as_list())) for weight in model.trainable_weights)
    recorder.training_begins(feed.dataset, len(feed.train), len(feed.test), trainable)
    keras_network.train(model, feed, recorder, arguments.epochs, Score)


if __name__ == "__main__":
    main()
