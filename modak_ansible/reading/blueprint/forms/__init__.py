"""What a user wrote, checked against a form: every mistake with its place."""
