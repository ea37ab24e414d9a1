"""What a training script's source and folder say; none of it is run."""
