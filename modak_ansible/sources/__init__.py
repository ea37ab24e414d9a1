"""Where a dataset may come from: one module per kind of source, discovered automatically."""

from modak_ansible.sources.base import Carrier, Source, SourceProblem, SourceSpec, kind_of, read_source

__all__ = ["Carrier", "Source", "SourceProblem", "SourceSpec", "kind_of", "read_source"]
