"""What a job asks for: its options, its processes, the limits and the rules of the site, settled before planning."""
