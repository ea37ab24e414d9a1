"""The MNIST-CNN in TensorFlow 1.14 and 2.1, by the Keras within it: a Sequential model and fit.

The paper's versions; their Python is 2.7. Before 2.0 a session computes the graph, from 2.0 on a tf.function does.
"""

from __future__ import absolute_import, division, print_function

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors; warnings are about files that only GPUs need

import common
import keras_model
import reference
import tensorflow as tf
from arguments import refuse
from recorder import Recorder

SWITCHES = {"compiler": ("none", "xla", "ngraph")}
GRAPH = tf.__version__.startswith("1.")
keras = tf.keras


def configure(arguments):
    """Sets what holds for the whole process; returns the versions of what computes."""
    versions = [("tensorflow", tf.__version__)]
    xla, ngraph = arguments.compiler == "xla", None
    if xla:  # clusters of operations on processors too; read when the first graph is prepared
        os.environ["TF_XLA_FLAGS"] = os.environ.get("TF_XLA_FLAGS", "") + " --tf_xla_cpu_global_jit"
    if arguments.compiler == "ngraph":
        ngraph = import_ngraph()
        versions.append(("ngraph-tensorflow-bridge", ngraph.__version__))
    if GRAPH:
        threads = arguments.threads
        config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1)
        if xla:
            config.graph_options.optimizer_options.global_jit_level = tf.compat.v1.OptimizerOptions.ON_1
        if ngraph:
            config = ngraph.update_config(config)
        tf.compat.v1.keras.backend.set_session(tf.compat.v1.Session(config=config))
        tf.compat.v1.set_random_seed(arguments.seed)  # the dropout's
    else:
        tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)  # the layers follow one another
        tf.config.optimizer.set_jit(xla)
        tf.random.set_seed(arguments.seed)
    return versions


def import_ngraph():
    """Returns nGraph's bridge, which takes over the computation as soon as it is imported."""
    try:
        import ngraph_bridge  # noqa: PLC0415 - it changes TensorFlow
    except ImportError as error:
        refuse("compiler", "ngraph", "its bridge cannot be imported: %s" % error)
    return ngraph_bridge


def gradients(model, images, labels):
    """Returns the gradients of a batch of numpy arrays, without dropout."""
    if GRAPH:
        x, y = tf.constant(images[..., None]), tf.constant(labels)
        return keras.backend.get_session().run(tf.gradients(loss_of(model, x, y), model.trainable_weights))
    with tf.GradientTape() as tape:
        loss = loss_of(model, images[..., None], labels)
    return [each.numpy() for each in tape.gradient(loss, model.trainable_weights)]


def loss_of(model, images, labels):
    """Returns the mean loss of a batch, without dropout."""
    scores = model(images, training=False)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores))


def main():
    """Trains and measures, as the command line asks."""
    arguments = common.parse_arguments("TensorFlow", SWITCHES)
    recorder = Recorder(common.WORKLOAD, arguments, "TensorFlow", configure(arguments))

    with recorder.timed("load_data"):
        data = common.load_data(arguments)

    model = keras_model.network(keras, arguments.dropout)
    keras_model.set_weights(model, arguments.seed)
    keras_model.compile_model(keras, model, arguments)

    if arguments.check_gradients:
        reference.check(arguments, data, recorder, lambda x, y: gradients(model, x, y))
    common.begin(recorder, data, keras_model.parameters(model))
    keras_model.train(keras, model, recorder, arguments, data, running_mean=False)


if __name__ == "__main__":
    main()
