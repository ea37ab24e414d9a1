"""Benchmarks: suites of trainings are run through the scheduler, recorded, compared and reported."""
