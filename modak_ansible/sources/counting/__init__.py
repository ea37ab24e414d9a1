"""How many samples a dataset has to train with: by the names of its files, or by what they hold."""
