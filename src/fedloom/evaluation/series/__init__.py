"""How models of series are judged: what they fill in, foretell, find and tell apart, and what they give away."""
