"""``check_method``: what every method must hold, on small problems of its family."""
