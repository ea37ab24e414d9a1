"""What of a workspace is in use, and what nobody uses."""
