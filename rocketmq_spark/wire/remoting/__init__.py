"""Remoting protocol: frames, commands, codes, and headers of requests and responses."""
