"""How samples reach a step."""
