"""What one process does by itself, and several do together: agree when to save and to end, and keep every stream."""

import sys
import time

from modak_checkpoint import streams

LOOK = 1.0  # seconds between two times that ranks ask each other


class Alone:
    """A training of one process."""

    is_first, has_parts = True, False

    def agreed(self, asked, due):
        """Whether it is to end, as a number, and whether it is time to save."""
        return asked, due

    def is_whole(self):
        """Whether the state can be saved here: not within a step of several passes."""
        steps = sys.modules.get("modak_runtime.pytorch.steps")
        return not (steps and steps.adds_up())

    def states(self):
        """Where the streams of random numbers stand."""
        return streams.states()

    def state_of(self, now, begun, parts):  # noqa: ARG002 - there is one of each part
        """What of such states is saved, now's and those of the epoch's begin."""
        return {"streams": now, "epoch_streams": begun}

    def load(self, state, parts):
        """Gives the parts of a training their states."""
        for name, part in parts.items():
            part.load_state_dict(state["parts"][name])

    def restore(self, state, name):
        """Puts the streams where they stood; those of several ranks give the order that all of them had."""
        streams.restore(state[name])

    def done(self, act, _also=None):
        """Has something done once."""
        act()

    def chosen(self, load, candidates):
        """The first state that can be loaded; None without one."""
        return next((state for state in map(load, candidates()) if state is not None), None)

    def words(self, state):
        """What is to be said of a state that is gone on from."""
        return ", in one process instead of %d," % len(state["ranks"]) if state.get("ranks") else ""


class Ranks(Alone):
    """A training of several processes: the first one writes what all of them need.

    Attributes:
        has_parts: whether each has a part of the state only, and all of them are needed to write it.

    Args:
        ranks: the processes, as modak_runtime has them.
    """

    def __init__(self, ranks):
        self._ranks, self.is_first, self.has_parts = ranks, ranks.number == 0, ranks.has_parts
        self._calls, self._next, self._asked_at = 0, 1, time.monotonic()

    def agreed(self, asked, due):
        """As one process; all ranks call it equally often, and it costs a message about once a second."""
        self._calls += 1
        if self._calls < self._next:
            return 0, False
        now = time.monotonic()
        pause = max(1, min(10000, int(self._calls * LOOK / max(1e-6, now - self._asked_at))))
        torch = self._ranks.torch
        message = torch.tensor([asked, due and self.is_first, pause if self.is_first else 0], dtype=torch.int64)
        self._ranks.guarded(torch.distributed.all_reduce, message, torch.distributed.ReduceOp.MAX)
        self._calls, self._asked_at = 0, now
        asked, due, self._next = message.tolist()
        return asked, bool(due)

    def is_whole(self):
        """Nor while ranks step by themselves; the same in all."""
        return Alone.is_whole(self) and self._ranks.is_whole()

    def states(self):
        """Those of the order that all ranks have, and this rank's own."""
        with self._ranks.in_common():
            common = streams.states()
        common.pop("cuda", None)
        with self._ranks.in_own():
            return [common, streams.states()]

    def state_of(self, now, begun, parts):
        own_state = {"streams": now[1], "epoch_streams": begun[1], "sums": self._ranks.own_state()}
        own_state["readers"] = self._ranks.samples.size
        if self._ranks.apart and not self.is_first:  # each had steps of its own
            own_state["parts"] = {
                name: part.state_dict() for name, part in parts.items() if not hasattr(part, "parameters")
            }
        return {"streams": now[0], "epoch_streams": begun[0], "ranks": self._ranks.to_first(own_state)}

    def load(self, state, parts):
        rank_states = state.get("ranks") or []
        is_same = self._is_same(rank_states)
        own_parts = rank_states[self._ranks.number].get("parts", {}) if is_same else {}
        Alone.load(self, {"parts": dict(state["parts"], **own_parts)}, parts)
        if all("sums" in rank_state for rank_state in rank_states):
            self._ranks.load_own(
                [rank_state["sums"] for rank_state in rank_states], self._ranks.number if is_same else None
            )

    def restore(self, state, name):
        rank_states = state.get("ranks") or []
        is_same = self._is_same(rank_states) and self._ranks.samples.size > 1
        own_streams = rank_states[self._ranks.number][name] if is_same else state[name]
        if own_streams["torch"] != state[name]["torch"]:  # they drew apart
            self._ranks.shares_batches()
        with self._ranks.in_common():
            streams.restore({key: value for key, value in state[name].items() if key != "cuda"})
        if is_same:
            streams.restore(own_streams)
            self._ranks.takes_streams()
        else:  # what such a rank would have drawn nobody knows: it draws what none has drawn
            self._ranks.draws_apart(1 + state["epoch"] * 1000 + state["step"])
        self._ranks.passes_over()
        if name == "epoch_streams":  # between two loops
            self._ranks.leaves_batches()

    def _is_same(self, rank_states):
        """Whether as many ranks had shared out as many batches between them, so that each draws what one has drawn."""
        world, readers = self._ranks.world, self._ranks.samples.size
        return len(rank_states) == world and rank_states[0].get("readers", world) == readers

    def done(self, act, also=None):
        """Has something done by the first rank; the others wait for it, or do their part of it where they have one.

        Raises:
            RuntimeError: the first rank could not, in its words.
        """
        problem = ""
        try:
            if self.is_first:
                act()
            elif also and self.has_parts:
                also()
        except Exception as error:  # of any kind: the others are to know
            problem = "%s: %s" % (type(error).__name__, error)
        problem = self._ranks.from_first(problem)
        if problem:
            raise RuntimeError(problem)

    def chosen(self, load, candidates):
        """The state that the first rank can load, read by each from the same file."""
        path = state = None
        if self.is_first:
            for path in candidates():
                state = load(path)
                if state is not None:
                    break
        path = self._ranks.from_first(path if state is not None else None)
        if path is not None and not self.is_first:
            state = load(path)
            if state is None:
                self._ranks.rank.end("this rank cannot read the checkpoint %s, from which rank 0 continues" % path)
        return state

    def words(self, state):
        world = len(state.get("ranks") or [0])
        return "" if world == self._ranks.world else ", with %d ranks instead of %d," % (self._ranks.world, world)


def crew(environment, torch, gpu):
    """Several processes that modak_runtime makes parallel; None where the script does that itself."""
    if torch is None or not environment.get("MODAK_STRATEGY"):
        return None
    from modak_runtime.parallel import processes

    return Ranks(processes.begin(torch, environment, gpu))
