"""Panels: readings of many places on one time axis."""
