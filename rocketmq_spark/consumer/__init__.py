"""A member of a consumer group: pure algorithms, and one shell with a thread (``member``)."""
