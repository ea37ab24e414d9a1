"""How one training is made of several processes."""
