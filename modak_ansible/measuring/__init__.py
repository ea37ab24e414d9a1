"""Benchmarks: suites of trainings, run through the scheduler, recorded, compared and reported."""
