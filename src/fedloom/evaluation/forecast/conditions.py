"""Conditions under which errors of forecasts are told; apart, since who reads numbers needs no tensors."""

MASKED, UNMASKED = "mask=masked", "mask=unmasked"
HELD_OUT = "mask=masked,part=held_out"
"""Condition of errors on validation and test part together, for protocols that have no third part."""
