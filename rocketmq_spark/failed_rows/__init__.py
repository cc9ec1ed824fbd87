"""Rows that could not be processed: sent back to their brokers, which deliver them to the group again, later."""
