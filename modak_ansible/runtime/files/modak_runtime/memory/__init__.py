"""What a training needs of memory, told by its own script, which runs without computing."""
