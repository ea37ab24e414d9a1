"""The text of container definitions, and of the scripts that create virtual environments."""
