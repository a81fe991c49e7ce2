"""What each family of tasks asks of the engine: samples per client, minibatches, validation."""
