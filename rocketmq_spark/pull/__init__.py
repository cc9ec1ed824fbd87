"""Reading a range of a queue: PullRequest, its window and its loop. A client that pulls here is no member of the
group."""
