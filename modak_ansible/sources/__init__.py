"""Where a dataset may come from: a module for each kind of source, found by themselves."""

from modak_ansible.sources.base import Asked, Carrier, Source, SourceProblem, kind_of, read_source

__all__ = ["Asked", "Carrier", "Source", "SourceProblem", "kind_of", "read_source"]
