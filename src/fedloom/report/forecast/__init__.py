"""Tables and figures of forecasts."""
