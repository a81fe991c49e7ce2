"""How forecasts are judged."""
