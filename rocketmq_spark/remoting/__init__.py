"""The only sockets: connections, name servers, brokers, and when to try again."""
