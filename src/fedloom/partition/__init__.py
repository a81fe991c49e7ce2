"""Which rows belong to which client: splits, windows, scalers, and the task that serves them."""
