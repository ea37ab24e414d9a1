"""The report: one page and its figures, made from records only."""
