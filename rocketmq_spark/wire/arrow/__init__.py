"""Decoding of many stored messages to Arrow columns, and encoding of rows to messages."""
