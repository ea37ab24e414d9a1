"""A training by Keras's fit, an epoch each; its dropout and the means of its metrics show in what it prints."""

import os
import sys

import keras
import modak_checkpoint
import numpy as np

keras.utils.set_random_seed(1)
random = np.random.RandomState(1)
x, y = random.rand(320, 8).astype("float32"), random.randint(0, 3, 320)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16), keras.layers.Dropout(0.5), keras.layers.Dense(3)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], steps_per_execution=int(sys.argv[1]))


class Losses:
    """What a script of its own keeps."""

    def __init__(self):
        self.seen = []

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = list(state["seen"])


class Stop(keras.callbacks.Callback):
    """Asks for the end after so many steps."""

    def on_epoch_begin(self, epoch, logs=None):
        self._before = len(losses.seen) * 10 + progress.step

    def on_train_batch_end(self, batch, logs=None):
        if os.environ.get("STOP_AFTER") == str(self._before + batch + 1):
            with open(os.environ["MODAK_STOP"], "w"):
                progress._ending._next_look = 0.0


losses = Losses()
progress = modak_checkpoint.resume(model=model, losses=losses)
for epoch in progress.epochs(3):
    order = np.random.RandomState(epoch).permutation(len(x))[progress.step * 32 :]
    if len(order):
        stop = [Stop()] if "STOP_AFTER" in os.environ else []
        callbacks = [*stop, progress.callback()]
        history = model.fit(x[order], y[order], batch_size=32, shuffle=False, verbose=0, callbacks=callbacks)
        losses.seen.append([history.history["loss"][0], history.history["accuracy"][0]])
print("losses", losses.seen)
