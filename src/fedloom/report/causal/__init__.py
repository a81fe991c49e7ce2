"""Tables and figures of effects, values and utility."""
