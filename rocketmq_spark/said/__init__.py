"""How what we say reaches whoever runs a query: lines and errors, of the source and of the sink."""
