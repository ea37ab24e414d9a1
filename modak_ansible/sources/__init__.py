"""Where a dataset may come from: one module per kind of source, discovered automatically."""

from modak_ansible.sources.base import Asked, Carrier, Source, SourceProblem, kind_of, read_source

__all__ = ["Asked", "Carrier", "Source", "SourceProblem", "kind_of", "read_source"]
