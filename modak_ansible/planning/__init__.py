"""From a request to a plan: configurations searched and compared, with the reason for each choice."""
