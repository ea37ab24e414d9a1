"""What in a workspace is in use, and what nobody uses."""
