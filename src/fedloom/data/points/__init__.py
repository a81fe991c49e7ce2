"""From points and trips to readings of hexagons."""
