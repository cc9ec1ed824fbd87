# Interface of the native extension; `native/src/python.rs` implements it.

from collections.abc import Sequence

from typing_extensions import Buffer

from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus

CONTRACT: int

class Memory(Buffer): ...

class Decoder:
    def __init__(self, fields: Sequence[str], broker_name: str, tags: Sequence[str] | None) -> None: ...
    def decode(
        self,
        bodies: Sequence[bytes | bytearray | memoryview],
        begin_offset: int,
        end_offset: int,
        response_offsets: Sequence[tuple[int, int]] = (),
    ) -> tuple[int, list[list[Memory | None]]] | None: ...
    def new_batch(self, data_bytes: int, max_rows: int) -> Growing: ...

class Growing:
    def add(
        self,
        bodies: Sequence[bytes | bytearray | memoryview],
        begin_offset: int,
        end_offset: int,
        response_offsets: Sequence[tuple[int, int]] = (),
    ) -> bool: ...
    def finish(self) -> tuple[int, list[list[Memory | None]]]: ...

class ResponseTemplate:
    def __init__(
        self,
        places: Sequence[tuple[bytes, int | None]],
        rest: bytes,
        result: type[PullResult],
        status: PullStatus,
        reason: str,
    ) -> None: ...
    def read(self, received: memoryview, begin: int, end: int) -> tuple[list[tuple[int, PullResult]], int]: ...
