"""Many stored messages as Arrow columns."""
