"""A request as users write it."""
