"""Lists that are kept between commands, each line one thing that was found out."""
