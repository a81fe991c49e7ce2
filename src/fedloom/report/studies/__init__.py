"""One file a study: which function makes which of its artifacts."""
