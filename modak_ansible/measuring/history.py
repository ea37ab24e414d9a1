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
        all_records = list(records)
        self._records = [record for record in all_records if record.suite_digest == suite.digest]
        self.outdated = len(all_records) - len(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def add(self, record: Record) -> None:
        self._records.append(record)

    def is_refused(self, variant: Variant) -> bool:
        """Whether the target was found unfit for a variant, which asking again would not change."""
        return any(record.outcome == "refused" for record in self._of(variant))

    def is_recorded(self, variant: Variant, reason: str) -> bool:
        """Whether it is on record already why a variant is not run."""
        return any(record.reason == reason for record in self._of(variant) if not record.plan)

    def attempt(self, block: Block, number: int) -> int:
        """How often a round was begun."""
        return max((record.attempt for record in self._round(block, number)), default=0)

    def disturbed(self, block: Block, number: int) -> int:
        """How many beginnings of a round were disturbed."""
        return len({record.attempt for record in self._round(block, number) if record.outcome == "disturbed"})

    def is_complete(self, block: Block, number: int, attempts: int, left_out: Collection[str]) -> bool:
        """Whether a round needs no more runs: all of its last beginning, undisturbed or disturbed often enough.

        A round that was cut short is run again as a whole: what is compared must have run side by side.

        Args:
            attempts: how often a disturbed round is begun.
            left_out: names of variants that cannot run.
        """
        last = self.attempt(block, number)
        ended = [record for record in self._round(block, number) if record.attempt == last]
        names = {record.variant for record in ended}
        if not all(variant.name in names or variant.name in left_out for variant in block.variants):
            return False
        return all(record.outcome != "disturbed" for record in ended) or self.disturbed(block, number) >= attempts

    def _of(self, variant: Variant) -> list[Record]:
        return [record for record in self._records if (record.group, record.variant) == (variant.group, variant.name)]

    def _round(self, block: Block, number: int) -> list[Record]:
        """The records of a round; a variant that never became a job belongs to none."""
        round_records = [record for record in self._records if (record.group, record.round) == (block.group, number)]
        return [record for record in round_records if record.plan or record.reason.startswith(LEFT_OUT)]


# Begins the reason of a record for a variant that is not run any more in this session.
LEFT_OUT = "left out"
