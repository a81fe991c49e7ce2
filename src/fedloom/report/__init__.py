"""Tables, figures and the page: drawing functions, which the artifacts of studies name."""
