"""A member of a consumer group: pure algorithms, except ``member``, which has a thread, and ``offset_file``, which has
a file."""
