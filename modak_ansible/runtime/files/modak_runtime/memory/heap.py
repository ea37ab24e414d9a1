"""What an allocator keeps of what is asked of it; of malloc, another process asks the C library for the same.

How malloc lays blocks out, which ones it maps for themselves, and what goes back, is up to the C library that the
training will have, and depends on all that was asked before. So a trace notes what is asked and given back, and
``replayed`` does the same where nothing else is, and touches none of it.
"""

import contextlib
import functools
import os
import socket
import subprocess
import sys
from array import array
from pathlib import Path

from modak_runtime.memory.replayed import ALLOCATE, APART, KEEP, LABEL, RELEASE, THRESHOLD

_REPLAY = "import sys; sys.path.insert(0, sys.argv.pop(1)); from modak_runtime.memory import replayed; replayed.main()"
_SEEDS = "0", "1", "2"  # small objects are of other sizes with each: where they lie is luck, in trainings, too


class Heap:
    """What was asked of an allocator, in order.

    Args:
        replay: a function that gives, of such events, the most bytes under each label, once or several times: the
            middle counts, of two the larger one. Without one malloc is asked for the same.
    """

    def __init__(self, replay=None):
        self._replay = replay or _replayed
        self._events, self._labels = array("q"), []
        self._begins, self._ends = [], {}  # of blocks: how many labels there were when it was taken, and given back
        self._moved = {}  # which block is there now in the place of one

    @property
    def is_used(self):
        return bool(self._begins)

    def allocate(self, size):
        """Takes so many bytes; what comes back is for release."""
        self._events.append(size << 3 | ALLOCATE)
        self._begins.append(len(self._labels))
        return len(self._begins) - 1

    def release(self, number):
        """Gives back what allocate has given."""
        self._release(self._moved.pop(number, number))

    def _release(self, number):
        self._events.append(number << 3 | RELEASE)
        self._ends[number] = len(self._labels)

    def ran(self, saves):
        """Notes that an operator has computed, which may save something for a backward pass."""
        if saves:
            self._events.append(KEEP)

    def at(self, loop, share):
        """Notes which loop goes on, over batches divided by what."""
        if not self._labels or self._labels[-1] != (loop, share):
            self._labels.append((loop, share))
            self._events.append(len(self._labels) - 1 << 3 | LABEL)

    @property
    def so_far(self):
        """How many events and blocks there were."""
        return len(self._events), len(self._begins)

    def asked(self, begin, first=0):
        """What was asked since there were so many events, and so many blocks, to be asked again."""
        return array(
            "q",
            (
                event - (first << 3) if event & 7 == RELEASE else event
                for event in self._events[begin:]
                if event & 7 != LABEL
            ),
        )

    def repeats(self, places):
        """Whether a step asked for the same as the one before it, and gave the same back.

        Args:
            places: what ``so_far`` was when the last three steps began, and is now.
        """
        (_, oldest), (begin, older), (middle, newer), (end, blocks) = places
        count = blocks - newer
        if (middle - begin, newer - older) != (end - middle, count):
            return False
        for event, other in zip(self._events[begin:middle], self._events[middle:end]):
            kind, value, other_value = event & 7, event >> 3, other >> 3
            if kind == RELEASE and value < older:  # of the first step, which was another one: it made the state
                is_same = other & 7 == RELEASE and oldest <= value and older <= other_value < newer
            else:
                is_same = other == event + (count << 3 if kind == RELEASE else 0)
            if not is_same:
                return False
        return True

    def repeat(self, places):
        """Has the last step once more; of what is still there of it the new one's counts as left from now on."""
        (begin, begin_blocks), (end, blocks) = places[-2:]
        count = blocks - begin_blocks
        for event in self._events[begin:end]:
            kind, value = event & 7, event >> 3
            if kind == ALLOCATE:
                self.allocate(value)
            elif kind == RELEASE:
                self._release(value + count)
                if value + count < blocks:
                    self._moved[value + count] = value + 2 * count
            else:
                self._events.append(event)

    def return_from(self, threshold):
        """Maps whatever is larger for itself from now on, whatever was given back."""
        self._events.append(threshold << 3 | THRESHOLD)

    def keep_small_apart(self):
        """Sets blocks aside for small objects, as ranks do."""
        self._events.append(APART)

    def peaks(self):
        """Most bytes that were resident, by loop and share.

        Batches of other sizes are left out, but for what they have left behind: a training has whole ones alone.
        Without the numbers that the kernel gives on Linux it is empty.
        """
        largest = {}
        for share in {share for _, share in self._labels}:
            events = self._without_shares_but(share)
            replays = self._replay(events)
            for number, (loop, label_share) in enumerate(self._labels):
                peaks = sorted(replay[number] for replay in replays if number in replay)
                if label_share == share and peaks:
                    largest[loop, share] = max(largest.get((loop, share), 0), peaks[len(peaks) // 2])
        return largest

    def _without_shares_but(self, share):
        """The events of batches that are divided so, and of loops that have one size alone."""
        shares = {}
        for loop, label_share in self._labels:
            shares.setdefault(loop, set()).add(label_share)
        left_out = [len(shares[loop]) > 1 and label_share != share for loop, label_share in self._labels]
        events, numbers, count, is_left_out = array("q"), {}, 0, False
        for event in self._events:
            kind, value = event & 7, event >> 3
            if kind == LABEL:
                is_left_out = left_out[value]
            elif kind == ALLOCATE:
                count += 1
                if is_left_out and self._begins[count - 1] == self._ends.get(count - 1):
                    continue
                numbers[count - 1] = len(numbers)
            elif kind == RELEASE:
                if value not in numbers:
                    continue
                events.append(numbers[value] << 3 | RELEASE)
                continue
            elif kind == KEEP and is_left_out:
                continue
            events.append(event)
        return events


def is_closed(asked):
    """Whether all that was asked for was given back, and nothing else."""
    kinds = [event & 7 for event in asked]
    return kinds.count(ALLOCATE) == kinds.count(RELEASE) and min(asked, default=0) >= 0


class Place:
    """The memory of the host, or of an accelerator.

    Attributes:
        now: bytes of the tensors that lie there.
    """

    def __init__(self, name, heap):
        self.name, self.heap, self.now = name, heap, 0

    def take(self, size):
        """Takes so many bytes; what comes back is for ``give``."""
        self.now += size
        return self.heap.allocate(size)

    def give(self, size, number):
        self.now -= size
        self.heap.release(number)

    def again(self, asked, blocks):
        """Asks for what another heap was asked for.

        Args:
            asked: its events, as of ``Heap.asked``.
            blocks: sizes and numbers of the blocks that were there; those that come are added, and None is put in the
                places of those that go.

        Returns: the most bytes of tensors meanwhile.
        """
        most = self.now
        for event in asked:
            kind, value = event & 7, event >> 3
            if kind == ALLOCATE:
                blocks.append((value, self.take(value)))
                most = max(most, self.now)
            elif kind == KEEP:
                self.heap.ran(saves=True)
            elif blocks[value]:
                self.give(*blocks[value])
                blocks[value] = None
        return most

    def of(self, loop):
        """The most bytes of tensors in a loop, and of what the allocator has, by what batches were divided by."""
        alive = loop["alive"].get(self.name, {})
        return {
            "tensors": {str(share): alive[share] for share in sorted(alive)},
            "peaks": {str(share): self.peak(loop, share) for share in sorted(alive)},
        }

    def peak(self, loop, share):
        """The most that the allocator had in a loop; what was in use where nobody could tell."""
        return self._peaks.get((loop["number"], share), loop["alive"].get(self.name, {}).get(share, 0))

    @functools.cached_property
    def _peaks(self):
        return self.heap.peaks()  # of all loops, at the end: those that evaluate come behind the one that trains


class _Service:
    """A process that replays what ranks have asked for, and sets blocks aside once for all of them."""

    asks = None  # a socket, of which copies of this process have one each


def serve_copies():
    """Begins such a process for copies of this one; it ends with the last of them."""
    with contextlib.suppress(OSError):  # then each has one of its own
        asks, answers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with answers:
            number = answers.fileno()
            subprocess.Popen(
                [*_command(), str(number)], pass_fds=[number], stdin=subprocess.DEVNULL, env=_environment()
            )
        _Service.asks = asks


def _served(events):
    """What that process answers; nothing where it does not."""
    try:
        file, (hears, tells) = os.memfd_create("events"), os.pipe()
        with os.fdopen(file, "wb") as events_file, os.fdopen(hears, "rb") as answer:
            events.tofile(events_file)
            events_file.flush()
            with os.fdopen(tells, "wb"):
                _Service.asks.sendmsg([b"?"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [file, tells]))])
            return answer.read()
    except (AttributeError, OSError):  # there is none
        return b""


def _replayed(events):
    """Most bytes under each label, for each of the seeds with which that could be found."""
    output = _served(events) if _Service.asks and APART in events else b""
    if not output:
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            output = subprocess.run(
                _command(), input=events.tobytes(), capture_output=True, check=True, env=_environment()
            ).stdout
    numbers, replays = array("q", output), []
    while numbers:
        count = numbers.pop(0)
        replays.append(dict(zip(numbers[:count:2], numbers[1:count:2])))
        del numbers[:count]
    return replays


def _command():
    return [sys.executable, "-I", "-S", "-c", _REPLAY, str(Path(__file__).parents[2]), *_SEEDS]


def _environment():
    """Of allocators that are preloaded what is mapped says little: they map far more than they use."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
