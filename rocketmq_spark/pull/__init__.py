"""Reading a range of a queue: PullRequest, its window, its loop. Streams and batches share it; it knows no group."""
