# The Rust twin's part that Python calls; `native/src/python.rs` has it.

from collections.abc import Sequence

from typing_extensions import Buffer

class Memory(Buffer): ...

class Decoder:
    def __init__(self, fields: Sequence[str], broker_name: str, tags: Sequence[str] | None) -> None: ...
    def decode(
        self, bodies: Sequence[bytes | bytearray | memoryview], begin_offset: int, end_offset: int
    ) -> tuple[int, list[list[Memory | None]]] | None: ...
