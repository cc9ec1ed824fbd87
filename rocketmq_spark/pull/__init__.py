"""Reading a range of a queue: PullRequest, its window and its loop. A pulling client is no member of the group."""
