"""Bytes to values and back, pure: no socket, thread or clock. Import the modules, this door is empty on purpose."""
