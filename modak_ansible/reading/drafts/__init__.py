"""From a script to its blueprint: what its source, and what lies beside it, tell; nothing of it is run."""
