"""Images and environments: built or pulled, and tried."""
