"""What a request runs, and on what data."""
