"""Scalar reference implementation for one stored message: its fields, properties, compression and IDs."""
