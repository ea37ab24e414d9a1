"""One training in several processes of PyTorch: how they meet, and what each has of the batch and of the gradients."""
