"""RocketMQ 5 proxies, over gRPC: channels, sessions, and what fails there. The other room that opens sockets."""
