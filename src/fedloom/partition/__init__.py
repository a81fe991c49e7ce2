"""Which rows belong to which client and to which part: splits, windows, scalers."""
