"""Where a training stands, what is saved of it, and when."""

import os
import signal
import sys
import threading
import time

from modak_runtime.report import warn

from modak_checkpoint import streams
from modak_checkpoint.together import Alone

GOES_ON = 85  # ERESTART of errno.h: the job script has the job run again
_LOOK = 1.0  # seconds between two looks for the file that asks for the end


class Progress:
    """The epochs and steps of one training.

    Attributes:
        epoch: the number of the epoch, from 0.
        step: how many steps of it were made.

    Args:
        store: where checkpoints lie; None where another rank writes them.
        form: how they are written.
        parts: what has state_dict and load_state_dict, by name.
        every: seconds between two checkpoints.
        stop: the path of a file; when it is there, the state is saved, and the process ends.
        crew: who trains.
    """

    def __init__(self, store, form, parts, every, stop, crew=None):
        self._crew = crew or Alone()
        self.epoch = self.step = 0
        self._store, self._form, self._parts, self._ending = store, form, parts, Ending(stop)
        self._every, self._next_save = every, time.monotonic() + every
        self._is_tried = self._is_looping = False
        self._resumed = self._begun = None  # the state that is gone on from; that of the epoch's begin
        self._steps = Steps(parts.values())
        self._loader = []  # where the generators of the epoch's loader stood at its begin
        self._load()
        self._before = self._ending.take_signal()  # what took it before

    # --- loops

    def epochs(self, count):
        """The numbers of the epochs that are left, of so many in all; the streams of random numbers go on, too.

        Whoever leaves the loop before its end has nothing to be saved either: a signal waits for no step any more.
        """
        if self._before is None:  # these follow others
            self._before = self._ending.take_signal()
        try:
            while self.epoch < count:
                if self._resumed is not None:
                    self._crew.restore(self._resumed, "epoch_streams")
                self._begun, self._is_looping = self._crew.states(), False
                hooks = sys.modules.get("modak_runtime.hooks")  # where somebody follows it
                if hooks:
                    hooks.tell(self.epoch + 1, count)
                yield self.epoch
                self.epoch, self.step, self._begun = self.epoch + 1, 0, None
        finally:
            self._before = self._ending.give_back(self._before)

    def batches(self, data):
        """The batches of the epoch that are left; what runs between two of them is a step.

        Those that were learnt from before the interruption are read again, and passed over.

        Args:
            data: a loader or anything else that can be iterated over, in an order that follows from the streams of
                random numbers, from its own generators, or from the number of the epoch.

        Raises:
            RuntimeError: it is the second one in an epoch.
        """
        if self._is_looping:
            raise RuntimeError("use batches once in an epoch, for the loop that trains; other loops do not need it")
        self._is_looping = True
        if self._resumed is not None:
            streams.restore_loader(data, self._resumed["loader"])
        self._loader = streams.loader_states(data)
        if self._resumed is None:
            self._look()
        iterator = iter(data)
        for _ in range(self.step):
            next(iterator, None)
        self.goes_on()
        for batch in iterator:
            yield batch
            self.step_ends()

    def goes_on(self):
        """Takes that the next step is about to begin; only for a loop that is not over batches, before its first."""
        if self._resumed is not None and self.step:
            self._crew.restore(self._resumed, "streams")
        self._resumed = None

    def step_ends(self, steps=1):
        """Takes that a step has ended, or several; only for a loop that is not over batches."""
        self.step += steps
        self._steps.batch_ends()
        self._look()

    def epoch_ends(self, epoch):
        """Takes that an epoch of such a number has ended, of a loop that epochs does not count."""
        self.epoch, self.step = epoch + 1, 0
        self._look()

    def stop_if_asked(self):
        """Ends the process where that is asked for, with the checkpoint that there is."""
        asked = self._ending.asked()
        if asked:
            self._leave(asked)

    def callback(self, whole_epochs=False):
        """The callback of Keras that takes the place of step_ends in fit.

        Args:
            whole_epochs: whether one fit trains all epochs: then only whole ones are saved.
        """
        from modak_checkpoint import keras_state

        return keras_state.callback(self, list(self._parts.values()), whole_epochs)

    # --- saving and loading

    def save(self):
        """Saves the state as it is now.

        Raises:
            OSError, RuntimeError, TypeError: it cannot be written, or not be loaded again; older ones stay.
        """
        now = self._crew.states()
        crew_state = self._crew.state_of(now, self._begun or now, self._parts)
        self._crew.done(lambda: self._write(crew_state), lambda: self._form.save(self._state(crew_state), os.devnull))

    def _state(self, crew_state):
        return {
            "epoch": self.epoch,
            "step": self.step,
            "loader": self._loader if self._begun else [],
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
            **crew_state,
        }

    def _write(self, crew_state):
        state = self._state(crew_state)
        path = self._store.save(lambda part: self._form.save(state, part))
        if not self._is_tried:  # once, because what cannot be loaded is better known now than then
            try:
                self._form.load(path)
            except Exception:
                self._store.discard(path)
                raise
            self._is_tried = True

    def _load(self):
        state = self._crew.chosen(self._read, self._store.newest if self._store else None)
        if state is not None:
            self._crew.load(state, self._parts)
            self.epoch, self.step, self._resumed = state["epoch"], state["step"], state
            del state["parts"]
            self._say("continues%s" % self._crew.words(state))

    def _read(self, path):
        try:
            return self._form.load(path)
        except Exception as error:  # whatever a loader raises
            warn("the checkpoint %s cannot be loaded: %s" % (path, error))
            return None

    def _look(self):
        """Saves when it is time, and ends when it is asked; nowhere within what would not go on from here."""
        if not (self._crew.is_whole() and self._steps.is_whole):
            return
        asked, is_due = self._crew.agreed(self._ending.asked(), time.monotonic() >= self._next_save)
        if asked:
            self._save_and_leave(asked)
        if is_due:
            try:
                self.save()
            except Exception as error:  # the border: a checkpoint less is no reason to end a training
                warn("no checkpoint was written: %s: %s" % (type(error).__name__, error))
            self._next_save = time.monotonic() + self._every

    # --- the end

    def _save_and_leave(self, asked):
        try:
            self.save()
        except Exception as error:  # the border, with words in place of a traceback
            sys.exit("modak: the training was asked to stop, but its state could not be saved: %s" % error)
        self._leave(asked)

    def _leave(self, asked):
        self._say("was stopped, and its state saved,")
        leave(asked)

    def _say(self, words):
        if not self._crew.is_first:
            return
        plural = "" if self.step == 1 else "s"
        sys.stdout.write(
            "modak: the training %s after %d step%s of epoch %d\n" % (words, self.step, plural, self.epoch + 1)
        )
        sys.stdout.flush()


class Steps:
    """Whether an optimiser has stepped: between two of its steps a script may add up gradients, which nobody keeps.

    Attributes:
        is_whole: whether it stepped with the last batch; at the beginning, too.

    Args:
        parts: of a training; where none is an optimiser of PyTorch that tells of its steps, each batch is one.
    """

    def __init__(self, parts):
        self.is_whole, self._follows, self._stepped = True, False, False
        for part in parts:
            try:
                part.register_step_post_hook(self._steps)
            except AttributeError:  # also of wrappers that are optimisers by name alone
                continue
            self._follows = True

    def batch_ends(self):
        self.is_whole, self._stepped = self._stepped or not self._follows, False

    def _steps(self, *_arguments):
        self._stepped = True


class Ending:
    """Whether a training is asked to end, which is not forgotten until the step, or all ranks, are ready for it.

    Args:
        stop: the path of the file that asks for it.
    """

    def __init__(self, stop):
        self._stop, self._process, self._next_look = stop, os.getpid(), 0.0
        self._by_signal = self._by_file = False

    def take_signal(self):
        """Has a signal wait for the end of the step, in the main thread; gives what took it before."""
        if threading.current_thread() is threading.main_thread():
            return signal.signal(signal.SIGTERM, self._signalled)
        return None

    def give_back(self, before):
        """Has a signal taken by what took it before, in the main thread; gives what is not given back."""
        if before is None or threading.current_thread() is not threading.main_thread():
            return before
        signal.signal(signal.SIGTERM, before)
        return None

    def asked(self):
        """2 by a signal, 1 by the file, else 0."""
        now = time.monotonic()
        if not (self._by_signal or self._by_file) and now >= self._next_look:
            self._next_look = now + _LOOK
            self._by_file = os.path.exists(self._stop)
        return 2 if self._by_signal else int(self._by_file)

    def _signalled(self, number, _frame):
        """Notes the first signal, for the step ends first; the second waits for nothing.

        A child that was forked has the handler, too, and no step of its own: a pool of processes ends its workers so.
        """
        if os.getpid() != self._process:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif self._by_signal:
            sys.exit(128 + number)
        self._by_signal = True


def leave(asked):
    """Ends the process as it was asked to, so that its job runs again."""
    sys.exit(128 + signal.SIGTERM if asked == 2 else GOES_ON)
