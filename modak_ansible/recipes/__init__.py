"""The text of container definitions and of the scripts that make virtual environments."""
