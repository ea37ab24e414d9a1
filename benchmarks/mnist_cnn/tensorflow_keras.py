"""The MNIST-CNN in TensorFlow, by Keras, the plain way: a Sequential model and fit, nothing tuned.

Not named tensorflow.py, because then `import tensorflow` would find this file.
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # warnings and errors, without the greeting

import common
import keras
import numpy as np
import tensorflow as tf
from dataset import batches
from keras import layers
from recorder import Recorder


def network(dropout: float) -> keras.Model:
    """Two convolutions and two dense layers; takes images (batch, 28, 28, 1), gives scores (batch, 10)."""
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25 * dropout),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.5 * dropout),
            layers.Dense(10),  # the softmax is part of the loss
        ]
    )


def set_weights(model: keras.Model, seed: int) -> None:
    """Starts from the weights that every framework starts from."""
    weights = []
    for kernel in common.initial_weights(seed):
        weights += [kernel, np.zeros(kernel.shape[-1], np.float32)]
    model.set_weights(weights)


class Steps(keras.callbacks.Callback):
    """Tells the recorder of each step of an epoch."""

    def __init__(self, recorder: Recorder, batches: list[np.ndarray]) -> None:
        super().__init__()
        self.recorder, self.sizes = recorder, [len(batch) for batch in batches]
        self.loss_sum = 0.0

    def on_train_batch_end(self, batch: int, logs: dict[str, float]) -> None:
        # Keras gives the mean loss of the epoch so far; the recorder wants that of the batch.
        loss_sum = logs["loss"] * sum(self.sizes[: batch + 1])
        self.recorder.step_ends((loss_sum - self.loss_sum) / self.sizes[batch], self.sizes[batch])
        self.loss_sum = loss_sum


def main() -> None:
    """Trains and measures, as the command line asks."""
    arguments = common.parse_arguments("TensorFlow", {})
    versions = [("tensorflow", tf.__version__), ("keras", keras.__version__)]
    recorder = Recorder(common.WORKLOAD, arguments, "TensorFlow", versions)
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)  # the layers follow one another
    keras.utils.set_random_seed(arguments.seed)  # the dropout's

    with recorder.timed("load_data"):
        data = common.load_data(arguments)
        images, labels = data.train_images[..., None], data.train_labels
        test_images, test_labels = data.test_images[..., None], data.test_labels

    model = network(arguments.dropout)
    set_weights(model, arguments.seed)
    model.compile(
        optimizer=keras.optimizers.Adadelta(arguments.learning_rate, rho=common.RHO, epsilon=common.EPSILON),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,
    )

    common.begin(recorder, data, sum(int(np.prod(w.shape)) for w in model.trainable_weights))
    for epoch in range(arguments.epochs):
        recorder.epoch_begins()
        steps = batches(len(images), arguments.batch_size, arguments.seed, epoch)
        order = np.concatenate(steps)
        model.fit(
            images[order],
            labels[order],
            batch_size=arguments.batch_size,
            shuffle=False,  # the order is a shuffled one already, the same for every framework
            callbacks=[Steps(recorder, steps)],
            verbose=0,
        )
        recorder.evaluation_begins()
        recorder.epoch_ends(*model.evaluate(test_images, test_labels, batch_size=common.EVALUATION_BATCH, verbose=0))


if __name__ == "__main__":
    main()
