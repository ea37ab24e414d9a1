"""Copies of this process that compute for it: what is imported, begun or kept there is not here."""

import ast
import contextlib
import fcntl
import itertools
import json
import os
import select
import signal
import zlib

from modak_runtime.free_memory import free_memory

_SECONDS = 0.5  # after which it is looked whether anybody still waits for copies


class Copy:
    """A copy that answers questions until its original ends; it is made at once, and so knows no later threads.

    Args:
        answer: a function that it answers with; what it takes and gives is JSON.
    """

    def __init__(self, answer):
        self._marks = itertools.count()
        questions, self._asks = os.pipe()
        self._hears, answers = os.pipe()
        self._number = os.fork()
        if not self._number:
            os.close(self._asks)
            os.close(self._hears)
            try:
                _serve(answer, questions, answers)
            finally:
                os._exit(0)
        os.close(questions)
        os.close(answers)
        self._hears = os.fdopen(self._hears)

    def ask(self, *question):
        """What it answers; None where it failed, or has ended."""
        mark = "%d %d" % (os.getpid(), next(self._marks))
        try:
            with os.fdopen(os.dup(self._asks), "w") as pipe:
                pipe.write(json.dumps([mark, question]) + "\n")
            for line in self._hears:
                answered_mark, answer = json.loads(line)
                if answered_mark == mark:  # another copy of its original may have asked, and ended before it heard
                    return answer
        except (OSError, ValueError):
            pass
        return None

    def end(self):
        os.close(self._asks)
        self._hears.close()
        os.waitpid(self._number, 0)


def from_copy(act):
    """What a function gives in a copy of this process; None where that failed."""
    return begun(act)()


def begun(act):
    """Has a copy of this process begin what a function does, beside this one; a function that waits for what it gives.

    That is JSON; None where it failed.
    """
    told, tells = os.pipe()
    number = os.fork()
    if not number:
        os.close(told)
        try:
            with os.fdopen(tells, "w") as pipe:
                json.dump(act(), pipe)
        finally:
            os._exit(0)
    os.close(tells)

    def wait():
        with os.fdopen(told) as pipe:
            text = pipe.read()
        os.waitpid(number, 0)
        with contextlib.suppress(ValueError):
            return json.loads(text)
        return None

    return wait


class Found:
    """What is found once; by one of several copies for all of them, if it is shared before they are made."""

    def __init__(self):
        self._known, self._file, self._read = {}, None, 0

    def share(self):
        with contextlib.suppress(AttributeError, OSError):  # then each finds what it needs
            self._file = os.memfd_create("found")

    def get(self, key, find):
        """What is known of a key, or else found now; another copy that asks for the same waits meanwhile.

        Args:
            find: a function without arguments; what it gives is numbers, words, tuples, lists and dictionaries,
                as keys are.
        """
        if key not in self._known:
            with self._alone(1 + zlib.crc32(repr(key).encode())):
                with self._alone(0):
                    self._hear()
                if key not in self._known:
                    self._known[key] = find()
                    with self._alone(0):
                        self._tell(key)
        return self._known[key]

    @contextlib.contextmanager
    def _alone(self, place):
        """Locks one byte of the file, which need not be there."""
        if self._file is None:
            yield
            return
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, place)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)

    def _hear(self):
        if self._file is not None:
            with open(self._file, errors="replace", closefd=False) as file:
                file.seek(self._read)
                for line in file.read().splitlines():
                    with contextlib.suppress(SyntaxError, ValueError):  # one that was ended has written half of it
                        self._known.update([ast.literal_eval(line)])
                self._read = file.tell()

    def _tell(self, key):
        if self._file is not None:
            with open(self._file, "a", closefd=False) as file:
                file.write("\n%r" % ((key, self._known[key]),))


class Copies:
    """Copies that go on with what this process does, until each tells what it found: several at a time.

    Another copy minds them. None begins before this process has told how much memory it takes: so much will they.

    Args:
        groups: lists of names of copies, which begin in this order; where one has failed, those of its group that have
            not begun never do.
        prepare: a function; what it does they begin with.

    Attributes:
        name: of this copy; None in the process that made them.
    """

    def __init__(self, groups, prepare=lambda: None):
        self.name, self._told, self._allows = None, None, None
        if not groups:
            return
        told, self._tells = os.pipe()
        allowed, allows = os.pipe()
        original = os.getpid()
        self._minder = os.fork()
        if self._minder:
            os.close(self._tells)
            os.close(allowed)
            self._told, self._allows = told, allows
            return
        os.close(told)
        os.close(allows)
        try:
            prepare()
            at_a_time = _allowed(allowed, original)
            os.close(allowed)
            if at_a_time:
                self._mind(groups, at_a_time, original)
        finally:
            if self.name is None:
                os._exit(0)

    def allow(self, size):
        """Has as many begin as there are cores, and memory for: so many bytes each."""
        if self._allows is not None:
            with contextlib.suppress(OSError), os.fdopen(self._allows, "w") as pipe:
                pipe.write(str(size))
            self._allows = None

    def answers(self):
        """What all copies of a group have told, group by group; without groups of which one has failed."""
        if self._told is None:
            return []
        self.allow(0)
        with os.fdopen(self._told) as pipe:
            text = pipe.read()
        self._told = None
        os.waitpid(self._minder, 0)
        with contextlib.suppress(ValueError):
            return json.loads(text)
        return []  # it was ended before it could tell them

    def tell(self, answer):
        """Tells what this copy has found, and ends it; None where it found nothing."""
        if answer is not None:
            with os.fdopen(self._tells, "w") as pipe:
                json.dump(answer, pipe)
        os._exit(0)

    def _mind(self, groups, at_a_time, original):
        """Begins them all, and tells what they have told; goes on in each of them."""
        waiting = [(place, name) for place, names in enumerate(groups) for name in names]
        running, found, failed = {}, {}, set()
        while waiting or running:
            while waiting and len(running) < at_a_time:
                place, name = waiting.pop(0)
                if place not in failed and self._begin(place, name, running):
                    return
            ready = select.select([*running], (), (), _SECONDS)[0]
            if os.getppid() != original:
                for number, *_ in running.values():
                    os.kill(number, signal.SIGKILL)
                return
            for pipe in ready:
                number, place, name, texts = running[pipe]
                texts.append(os.read(pipe, 1 << 16))
                if texts[-1]:
                    continue
                del running[pipe]
                os.close(pipe)
                os.waitpid(number, 0)
                try:
                    found[name] = json.loads(b"".join(texts))
                except ValueError:  # it has ended before it told all
                    failed.add(place)
        answers = [[found[name] for name in names] for place, names in enumerate(groups) if place not in failed]
        with os.fdopen(self._tells, "w") as pipe:
            json.dump(answers, pipe)

    def _begin(self, place, name, running):
        """Makes a copy; whether this is it."""
        told, tells = os.pipe()
        number = os.fork()
        if number:
            os.close(tells)
            running[told] = number, place, name, []
            return False
        for pipe in (self._tells, told, *running):
            os.close(pipe)
        self.name, self._tells = name, tells
        return True


def _allowed(pipe, original):
    """How many copies there can be at a time; 0 where the process that would hear of them has ended."""
    while not select.select([pipe], (), (), _SECONDS)[0]:
        if os.getppid() != original:
            return 0
    text = os.read(pipe, 100)
    return _at_a_time(int(text)) if text else 0


def _at_a_time(size):
    """How many copies there can be at once that take so many bytes each."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    free = free_memory()
    return max(1, min(cores, free // size if size and free is not None else 1))


def _serve(answer, questions, answers):
    with os.fdopen(questions) as reader, os.fdopen(answers, "w") as writer:
        for line in reader:
            mark = ""
            try:
                mark, question = json.loads(line)
                reply = json.dumps([mark, answer(*question)])
            except Exception:  # the border: what cannot be answered is not known
                reply = json.dumps([mark, None])
            writer.write(reply + "\n")
            writer.flush()
