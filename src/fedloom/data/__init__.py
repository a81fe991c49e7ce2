"""From raw public bytes to canonical frames (panels)."""
