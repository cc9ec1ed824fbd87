"""Message-based load balancing (POP): each member may receive any message, invisible to other members for a while."""
