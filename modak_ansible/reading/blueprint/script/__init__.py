"""What a training script's source and folder tell; nothing of them is run."""
