"""From raw public bytes to canonical frames: panels, trajectories, series."""
