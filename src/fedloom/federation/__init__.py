"""The engine: stacked clients, steps, phases, exchange, ledger, state, randomness."""
