"""How the steps of Keras's fit are told to the recorder, and a step of our own in place of fit's."""

from __future__ import absolute_import, division, print_function


def steps_callback(keras, recorder, batches, running_mean=True):
    """Returns the callback that tells the recorder of each step of an epoch.

    Args:
        keras: the module.
        recorder: a Recorder.
        batches: the numbers of the samples of each step.
        running_mean: whether this Keras gives the mean loss of the epoch so far; older ones give that of the batch.
    """
    sizes = [len(batch) for batch in batches]
    done = recorder.running

    def step_ends(batch, logs):
        images, loss = sizes[batch], float(logs["loss"])
        if running_mean:
            loss_sum = loss * (done["images"] + images)
            loss = (loss_sum - done["loss_sum"]) / images
            done["loss_sum"] = loss_sum
        done["images"] += images
        recorder.step_ends(loss, images)

    class Steps(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            step_ends(batch, logs)

    return Steps()


def own_step(tf, model, samples, labels, compiler):
    """Returns a function of the numbers of a step's samples that learns from them and gives their mean loss.

    Args:
        tf: the module.
        model: a compiled one of Keras 3, whose optimiser is taken.
        samples, labels: arrays of all of them.
        compiler: xla or none.
    """
    samples, labels = tf.constant(samples), tf.constant(labels)
    optimizer, weights = model.optimizer, model.trainable_variables
    optimizer.build(weights)

    @tf.function(jit_compile=compiler == "xla", reduce_retracing=False)
    def step(numbers):
        with tf.GradientTape() as tape:
            loss = loss_of(tf, model, tf.gather(samples, numbers), tf.gather(labels, numbers), training=True)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    return step


def loss_of(tf, model, samples, labels, training):
    """Returns the mean loss of a batch, in float32."""
    scores = tf.cast(model(samples, training=training), tf.float32)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores))
