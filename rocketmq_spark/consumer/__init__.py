"""A member of a consumer group: pure algorithms, except ``member`` (has a thread) and ``offset_file`` (has a file)."""
