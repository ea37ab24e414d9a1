"""The modak command: one file a subcommand."""
