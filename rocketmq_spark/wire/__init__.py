"""Conversion between bytes and values, without sockets, threads or clocks. Import the modules; this package is
empty."""
