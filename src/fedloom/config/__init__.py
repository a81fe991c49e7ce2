"""Models of every configuration file: the one source of their schema and defaults."""
