"""The report: one page and its figures, made of records and of nothing else."""
