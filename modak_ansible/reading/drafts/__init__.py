"""From a script to its blueprint, from its source and the files beside it; none of it is run."""
