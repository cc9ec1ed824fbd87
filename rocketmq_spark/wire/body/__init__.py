"""JSON bodies of remoting commands: routes, heartbeats, consumer lists, running info, statistics."""
