"""The foundation of everything on the target: files and locks, programs, long-running work, the workspace."""
