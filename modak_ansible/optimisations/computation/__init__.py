"""What a step computes, and with which library, format and batch."""
