"""Frames and headers: one remoting command, its codes, and the values of its header."""
