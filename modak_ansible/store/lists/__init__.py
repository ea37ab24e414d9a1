"""Lists that are kept between commands, one finding per line."""
