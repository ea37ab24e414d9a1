"""The numbers of a deployment's training as curves, from what was fetched of it."""

from __future__ import annotations

from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.target.metrics.curves import Curves, read_curves


def curves_of(store: DeploymentStore) -> Curves:
    """All that its files of metrics hold that are here."""
    return read_curves(store.results, [file.path for file in store.files if (store.results / file.path).is_file()])
