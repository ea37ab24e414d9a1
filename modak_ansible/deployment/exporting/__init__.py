"""Runs exported to experiment trackers, from what was fetched, without their libraries.

Each tool is a module with ``folders(run)``: the folders of a run, by their paths below the tool's own, with the
contents of their files; a file whose name ends with a slash is a folder. The same run gives the same bytes.
"""
