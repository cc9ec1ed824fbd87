"""JSON bodies of remoting commands: routes, heartbeats, lists of consumers, running info, statistics."""
