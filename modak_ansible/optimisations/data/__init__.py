"""How samples come to a step."""
