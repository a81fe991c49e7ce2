"""One file a method: parameters, client model, loss, what is shared, what the server does."""
