"""Reading a range of a queue: PullRequest, its window, its loop. Whoever pulls for a group is no member of it."""
