"""How many gradients are sent at once."""

from __future__ import annotations

from modak_ansible.optimisations.properties import Property
from modak_ansible.optimisations.sums import SumsOptimisation


class BucketSize(SumsOptimisation):
    name = "bucket_size"
    reasons = {
        "25": "MiB of a bucket after the first, of 1 MiB, as PyTorch itself has it",
        "1": "each bucket leaves early; more messages",
        "5": "buckets leave earlier; more messages",
        "100": "fewer messages, which leave later",
    }
    properties = (
        Property(
            "MiB of gradients that ranks sum at once; values other than 25 add in a different order.", tuple(reasons)
        ),
    )
    after = (*SumsOptimisation.after, "gradient_compression", "local_sgd")
    stock = ("25",)
    numerics = "reassociation"
