"""What a file of records already has of a suite, so that a run goes on where an earlier one stopped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from modak_ansible.measuring.suites.variants import Block, Variant
from modak_ansible.model.measured.record import Record
from modak_ansible.model.measured.suite import Suite


class History:
    """The records of one suite; those of an earlier text of it do not count.

    Args:
        suite: whose records count.
        records: of a file, in its order.
    """

    def __init__(self, suite: Suite, records: Iterable[Record]) -> None:
        known = list(records)
        self._records = [each for each in known if each.suite_digest == suite.digest]
        self.others = len(known) - len(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def add(self, record: Record) -> None:
        self._records.append(record)

    def is_refused(self, variant: Variant) -> bool:
        """Whether the target was found unfit for a variant, which asking again would not change."""
        return any(record.outcome == "refused" for record in self._of(variant))

    def is_said(self, variant: Variant, reason: str) -> bool:
        """Whether it is on record already why a variant is not run."""
        return any(record.reason == reason for record in self._of(variant) if not record.plan)

    def attempt(self, block: Block, number: int) -> int:
        """How often a round was begun."""
        return max((each.attempt for each in self._round(block, number)), default=0)

    def disturbed(self, block: Block, number: int) -> int:
        """How many beginnings of a round were disturbed."""
        return len({each.attempt for each in self._round(block, number) if each.outcome == "disturbed"})

    def is_complete(self, block: Block, number: int, attempts: int, left_out: Collection[str]) -> bool:
        """Whether a round needs no more runs: all of its last beginning, undisturbed or disturbed often enough.

        A round that was cut short is run again as a whole: what is compared must have run side by side.

        Args:
            attempts: how often a disturbed round is begun.
            left_out: names of variants that cannot run.
        """
        last = self.attempt(block, number)
        ended = [each for each in self._round(block, number) if each.attempt == last]
        names = {each.variant for each in ended}
        if not all(variant.name in names or variant.name in left_out for variant in block.variants):
            return False
        return all(each.outcome != "disturbed" for each in ended) or self.disturbed(block, number) >= attempts

    def _of(self, variant: Variant) -> list[Record]:
        return [record for record in self._records if (record.group, record.variant) == (variant.group, variant.name)]

    def _round(self, block: Block, number: int) -> list[Record]:
        """The records of a round; a variant that never became a job belongs to none."""
        mine = [record for record in self._records if (record.group, record.round) == (block.group, number)]
        return [each for each in mine if each.plan or each.reason.startswith(LEFT_OUT)]


# Begins the reason of a record for a variant that is not run any more in this session.
LEFT_OUT = "left out"
