"""A member of a consumer group: pure algorithms, and two shells: ``member`` has a thread, ``offset_file`` a file."""
