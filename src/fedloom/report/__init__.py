"""From metric rows to tables, figures and the page."""
