"""Message granularity: any member of a group may take any message, which is its own for a while."""
