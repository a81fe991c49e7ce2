"""Series: recordings of many kinds, one row a channel."""
