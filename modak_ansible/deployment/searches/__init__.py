"""Searches: trials chosen by a study, deployed, watched, and pruned."""
