"""Failed rows: sent back to their brokers, which redeliver them to the group later."""
