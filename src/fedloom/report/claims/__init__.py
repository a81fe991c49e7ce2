"""What the papers say, put to the test on the runs of a study: claims, their verdicts, contradictions in print."""
