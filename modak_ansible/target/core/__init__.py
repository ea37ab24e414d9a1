"""What everything on the target rests on: files and locks, programs, long work, the workspace."""
