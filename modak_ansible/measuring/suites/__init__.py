"""Benchmark suites: read from YAML, with the place of every mistake."""
