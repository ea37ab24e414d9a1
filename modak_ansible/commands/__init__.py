"""The modak command: one file per subcommand."""
