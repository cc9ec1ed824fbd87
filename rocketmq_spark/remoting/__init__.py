"""RocketMQ's remoting protocol: connections, clients of name servers and brokers, retries, producer."""
