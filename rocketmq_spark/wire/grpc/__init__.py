"""What a RocketMQ 5 proxy is told over gRPC, and what it answers. ``messaging_pb2`` is made of ``messaging.proto``."""
