"""What one client computes: ordinary modules, no federation in them."""
