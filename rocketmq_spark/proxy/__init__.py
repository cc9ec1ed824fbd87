"""Client of RocketMQ 5 proxies over gRPC: channels, sessions, failures. Only this and ``remoting`` open sockets."""
