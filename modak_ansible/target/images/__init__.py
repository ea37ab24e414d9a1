"""Images and environments: built or pulled, and probed."""
