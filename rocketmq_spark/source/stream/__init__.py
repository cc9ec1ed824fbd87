"""Streaming reads: offsets, plans, and the lifetime of the group member in its source runner."""
