"""Parts that client models are made of."""
