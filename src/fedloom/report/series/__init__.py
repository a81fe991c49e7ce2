"""Tables and figures of models of series."""
