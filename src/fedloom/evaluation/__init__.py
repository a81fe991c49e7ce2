"""From trained weights to metric rows."""
