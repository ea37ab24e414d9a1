"""What a run costs: money, and energy."""
