"""What a job runs in: image, container and the rules of its site."""
