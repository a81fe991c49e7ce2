"""Tables, figures and the page. A study's artifacts are functions in ``studies/{study}.py``, found by their names."""
