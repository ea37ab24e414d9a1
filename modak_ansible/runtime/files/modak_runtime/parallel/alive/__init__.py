"""Whether all ranks are alive, and how fast each is: each tells the first one every few seconds.

To those who wait for a sum, a process that was stopped, a node that is gone and a network that is cut look like one
that computes. Here they do not: whoever is not heard of for a while is named, with its node and address, and the
training ends. It takes no framework.
"""

import collections
import json
import os
import socket
import sys
import threading
import time

from modak_runtime.parallel.alive.activity import Activity, is_in_a_sum, place

CODE = 68  # of a process that ends for it
SLOW = 3.0  # a rank is slow that takes so many times the seconds of the others' middle one
AWAITED = 1740.0  # seconds for which others wait for one that computes; a little less than until their sums give up
STEPS = 10  # a rank is stuck that does nothing for the limit, and for as many of the slowest rank's steps
_PAUSE, _KEPT = 2.0, 16  # seconds between words; words by which the seconds of a step are known
_UNANSWERED = 5  # such pauses, after which a connection is made anew
_SHOWN = 8  # ranks whose places are told


class Pace:
    """What a rank does of its own: its steps, and the seconds in which it waited for the others."""

    def __init__(self):
        self._count = int  # which is 0
        self._history = collections.deque(maxlen=_KEPT)
        self.waited, self._waiting_since = 0.0, None

    def counts(self, count):
        """Takes what tells the number of steps so far."""
        self._count = count

    def waits(self, act, *arguments, **options):
        """What an act gives in which this rank waits for the others."""
        if self._waiting_since is not None:  # one within another
            return act(*arguments, **options)
        self._waiting_since = time.monotonic()
        try:
            return act(*arguments, **options)
        finally:
            began, self._waiting_since = self._waiting_since, None
            self.waited += time.monotonic() - began

    def waits_for(self):
        """Seconds for which this rank has been waiting for the others; 0 where it does something of its own."""
        since = self._waiting_since
        return 0.0 if since is None else time.monotonic() - since

    def word(self):
        """The steps so far, and the seconds of a step without those of waiting; None where they are not known yet."""
        now, since, count = time.monotonic(), self._waiting_since, self._count()
        waited = self.waited + (now - since if since is not None else 0.0)
        if count and (not self._history or count > self._history[-1][0]):
            self._history.append((count, now, waited))
        if len(self._history) < 2:
            return count, None
        (before, then, had), (count, now, waited) = self._history[0], self._history[-1]
        return count, max(0.0, now - then - (waited - had)) / (count - before)


class Watch:
    """What is known of others, by how long they have been silent; a stop of this process is no silence of theirs.

    Attributes:
        cut: seconds of the longest silence that has ended.
    """

    def __init__(self, limit, pause):
        self.cut = 0.0
        self._limit, self._pause, self._silent = limit, pause, {}
        self._looked = time.monotonic()

    def heard(self, other):
        self.cut = max(self.cut, self._silent.get(other, 0.0))
        self._silent[other] = 0.0

    def forget(self, other):
        self._silent.pop(other, None)

    def lost(self):
        """Who has been silent for too long; None where nobody has."""
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, 2 * self._pause), now
        for other in self._silent:
            self._silent[other] += passed
        return next((other for other, silent in self._silent.items() if silent > self._limit), None)


class Alive:
    """This rank among the others.

    Args:
        number: of this rank; world: how many there are.
        own: its node and address, such as ``node02 (10.0.0.2)``.
        limit: seconds of silence after which a rank is given up, and after which all are where none does anything.
        pace: of this rank.
        end: is called with words and the rank that is lost, and does not come back.
        slow: is called in rank 0, with the seconds of a step of each rank, and the slow one or None.
        awaited: seconds after which a rank that is alive is given up, where all others wait for it.
    """

    def __init__(self, number, world, own, limit, pace, end, slow, awaited=AWAITED):
        self._number, self._world, self._own, self._limit, self._pace = number, world, own, limit, pace
        self._pause = min(_PAUSE, limit / 5)
        self._end, self._slow, self._awaited = end, slow, awaited
        self._watch, self._activity = Watch(limit, self._pause), Activity(2 * self._pause)
        self._words, self._lock = {number: {"own": own}}, threading.Lock()

    def listen(self, address):
        """Begins in rank 0; gives the port at which the others are awaited."""
        family = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0][0]
        server = socket.create_server((address, 0), family=family, backlog=self._world)
        self._start(self._accept, server)
        self._start(self._look)
        return server.getsockname()[1]

    def join(self, address, port, first):
        """Begins in another rank; ``first`` is the node and address of rank 0."""
        self._words[0] = {"own": first}
        self._watch.heard(0)
        self._start(self._tell, address, port)

    def _start(self, act, *arguments):
        threading.Thread(target=self._apart, args=(act, *arguments), name="modak-alive", daemon=True).start()

    def _apart(self, act, *arguments):
        self._activity.leaves_out()
        act(*arguments)

    def _word(self):
        """What this rank does."""
        step, seconds = self._pace.word()
        word = {"rank": self._number, "own": self._own, "step": step, "seconds": seconds}
        word["waits"], word["idle"] = self._pace.waits_for(), self._activity.idle(step, self._pace.waited)
        if word["idle"] > self._limit / 2:
            word["place"], word["sums"] = place(), bool(word["waits"]) or is_in_a_sum()
        return word

    def _accept(self, server):
        while True:
            connection, _ = server.accept()
            self._expects_answers(connection)
            self._start(self._hear, connection)

    def _expects_answers(self, connection):
        """Has it fail where a link is cut, for another one to be made: TCP would be silent for longer than the link."""
        milliseconds = round(1000 * _UNANSWERED * self._pause)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)

    def _hear(self, connection):
        """In rank 0, the words of one other; it ends when that one does."""
        rank = None
        try:
            with connection, connection.makefile("rw") as stream:
                for line in stream:
                    word = json.loads(line)
                    rank = int(word["rank"])
                    with self._lock:
                        self._words[rank] = word
                        self._watch.heard(rank)
                    stream.write("\n")
                    stream.flush()
        except ConnectionError:
            pass  # what it had not read yet when it ended is answered so
        except (OSError, ValueError, KeyError):
            return  # one that is lost is still awaited
        with self._lock:
            self._watch.forget(rank)  # it has ended, which its own launcher sees

    def _look(self):
        while True:
            time.sleep(self._pause)
            with self._lock:
                lost = self._watch.lost()
                words = {rank: dict(word) for rank, word in self._words.items()}
            if lost is not None:
                self._end(self._about(lost, words[lost]), lost, words[lost]["own"])
            words[self._number] = self._word()
            self._compare(words)
            self._look_for_awaited(words)
            self._look_for_stuck(words)

    def _compare(self, words):
        seconds = [words.get(rank, {}).get("seconds") for rank in range(self._world)]
        if None in seconds:
            return
        rank = max(range(self._world), key=seconds.__getitem__)
        others = sorted(seconds[:rank] + seconds[rank + 1 :])
        is_slow = seconds[rank] > max(SLOW * others[len(others) // 2], 0.01)
        self._slow([round(value, 4) for value in seconds], (rank, words[rank]["own"]) if is_slow else None)

    def _look_for_awaited(self, words):
        """Ends where one rank is alive, and all others have waited for it for too long."""
        waits = [words.get(rank, {}).get("waits", 0.0) for rank in range(self._world)]
        own = [rank for rank, seconds in enumerate(waits) if not seconds]
        if len(own) != 1 or own[0] not in words:  # of one that was never heard of nothing is known
            return
        if min([seconds for seconds in waits if seconds], default=0.0) < self._awaited:
            return
        (rank,) = own
        message = (
            "rank %d on %s is alive%s, and all others have waited for it for %g s: it hangs, or computes for longer"
            % (rank, words[rank]["own"], _after(words[rank]), self._awaited)
        )
        self._end(message, rank, words[rank]["own"], "awaited")

    def _look_for_stuck(self, words):
        """Ends where all ranks are alive, and none does anything: one hangs, or they wait for each other."""
        limit = max(self._limit, STEPS * max((word.get("seconds") or 0.0 for word in words.values()), default=0.0))
        idle = min(words.get(rank, {}).get("idle", 0.0) for rank in range(self._world))
        if idle < self._pause:
            self._watch.cut = 0.0
        # TCP doubles its pauses: what a cut link lost it sends again when up to twice the time of the cut has passed
        if idle <= limit + 2 * self._watch.cut:
            return
        stuck = [rank for rank in range(self._world) if not words[rank].get("sums")]
        rank = min(stuck or range(self._world), key=lambda other: (words[other].get("step") or 0, other))
        others = "; ".join(
            "rank %d on %s is at %s"
            % (other, words[other]["own"], words[other].get("place") or "no line that is known")
            for other in [rank, *(other for other in range(self._world) if other != rank)][:_SHOWN]
        )
        message = "no rank has computed, read or written anything for %g s%s, %s: %s" % (
            limit, _after(words[rank]),
            "and rank %d is in no sum, for which the others wait" % rank if len(stuck) == 1 else
            "and all wait for each other in sums" if not stuck else
            "and ranks %s are in no sum" % " and ".join(map(str, stuck)), others,
        )  # fmt: skip
        self._end(message, rank, words[rank]["own"], "stuck" if stuck else "crossed")

    def _tell(self, address, port):
        """In another rank: says that it is there, and waits for the answer."""
        stream = None
        while True:
            try:
                if stream is None:
                    connection = socket.create_connection((address, port), timeout=self._pause)
                    connection.settimeout(None)
                    self._expects_answers(connection)
                    stream = connection.makefile("rw")
                    self._start(self._answers, connection)
                stream.write(json.dumps(self._word()) + "\n")
                stream.flush()
            except OSError:
                stream = None  # it may have ended, or come back
            time.sleep(self._pause)
            with self._lock:
                lost = self._watch.lost()
            if lost is not None:
                self._end(self._about(0, self._words[0]), 0, self._words[0]["own"])

    def _answers(self, connection):
        try:
            while connection.recv(4096):
                with self._lock:
                    self._watch.heard(0)
        except ConnectionError:
            pass  # as in _hear
        except OSError:
            return
        with self._lock:
            self._watch.forget(0)

    def _about(self, rank, word):
        return (
            "rank %d on %s was not heard of for %g s%s, from %s: its process hangs or was stopped, its node is down, "
            "or the network between the two is cut" % (rank, word["own"], self._limit, _after(word), self._own)
        )


def _after(word):
    return " after step %d" % word["step"] if word.get("step") else ""


def end(words, rank, own, how="silent"):
    """Ends this process for the sake of another rank, whose number and node whoever started it finds in a file."""
    own_folder = os.path.dirname(os.environ.get("MODAK_APPLIED", ""))
    try:
        if own_folder:
            with open(os.path.join(own_folder, "lost"), "w") as file:
                file.write("%d %d %s %s\n" % (rank, CODE, own.split()[0], how))
        sys.stdout.flush()
        sys.stderr.write("modak: rank %s: %s\n" % (os.environ.get("RANK", "?"), words))
        sys.stderr.flush()
    finally:
        os._exit(CODE)
