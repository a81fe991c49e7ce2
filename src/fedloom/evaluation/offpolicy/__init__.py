"""What a policy that nobody followed would have earned, from a log of another policy."""
