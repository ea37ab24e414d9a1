"""Suites of benchmarks: read from YAML, every mistake with its place."""
