"""A streaming query's reading: offsets, plans, and the life of the member in its source runner."""
