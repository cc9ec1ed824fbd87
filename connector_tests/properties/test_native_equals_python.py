"""Native code alone, without the decoder in Python behind it: the same batch, or a refusal."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from connector_tests.properties.test_columns_equal_scalar import damaged_bodies
from connector_tests.support.decoders import native_decoder
from connector_tests.support.message_bytes import V1, V2, Record, pull_body
from connector_tests.support.message_strategies import (
    INT32,
    INT64,
    PROPERTY_COLUMNS,
    TAG_VALUES,
    pull_bodies,
    well_formed_properties,
)
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.arrow.column_table import COLUMNS, FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS
from rocketmq_spark.wire.arrow.columns import ColumnDecoder

NATIVE = native_decoder()
TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=12)
TIMES = st.integers(FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS)
HOSTS = st.tuples((st.ip_addresses(v=4) | st.ip_addresses(v=6, network="2000::/3")).map(str), INT32)
ORDINARY = st.builds(
    Record,
    topic=TEXT,
    body=st.binary(max_size=40),
    properties=well_formed_properties | st.dictionaries(TEXT.filter(bool), TEXT.filter(bool), max_size=20),
    queue_id=INT32,
    queue_offset=st.integers(0, 20) | INT64,
    commit_log_offset=INT64,
    sys_flag=st.sampled_from([0, 0x2, 0x8, 0x40, -(2**31)]),
    flag=INT32,
    born_timestamp_ms=TIMES,
    store_timestamp_ms=TIMES,
    born_host=HOSTS,
    store_host=HOSTS,
    reconsume_times=INT32,
    prepared_transaction_offset=INT64,
    body_crc=INT32,
    magic=st.sampled_from([V1, V2]),
)
ANY_COLUMN = st.sampled_from([*sorted(COLUMNS), *PROPERTY_COLUMNS])
COLUMN_LISTS = st.just(list(COLUMNS)) | st.lists(ANY_COLUMN, unique=True, min_size=1)
REQUIRED = st.tuples(st.integers(-1, 22), st.integers(-1, 22)) | st.just((-(2**63), 2**63 - 1))
TAGS = st.none() | st.frozensets(st.sampled_from(TAG_VALUES))
Arguments = tuple[list[str], frozenset[str] | None, bool]
ARGUMENTS = st.tuples(COLUMN_LISTS, TAGS, st.booleans())


def is_accepted(bodies: Sequence[bytes], offset_range: tuple[int, int], arguments: Arguments) -> bool:
    """Whether native code takes it; then Python states the same."""
    columns, tags, restores_origin = arguments
    native = NATIVE(columns, broker_name="b", tags=tags, restores_origin=restores_origin)
    batch = native.decode_fast_path(bodies, *offset_range)
    if batch is None:
        return False
    batch.validate(full=True)
    python = ColumnDecoder(columns, broker_name="b", tags=tags, restores_origin=restores_origin)
    expected = python.decode(bodies, *offset_range)
    assert batch.schema.equals(expected.schema, check_metadata=True)
    assert batch.equals(expected)
    return True


@given(st.lists(st.lists(ORDINARY, max_size=5), max_size=4), REQUIRED, ARGUMENTS)
def test_what_is_ordinary_is_accepted(
    pulls: list[list[Record]], offset_range: tuple[int, int], arguments: Arguments
) -> None:
    assert is_accepted([pull_body(*pull) for pull in pulls], offset_range, arguments)


@given(pull_bodies, REQUIRED, ARGUMENTS)
def test_what_is_odd_is_the_same_or_refused(
    pulls: list[list[Record]], offset_range: tuple[int, int], arguments: Arguments
) -> None:
    is_accepted([pull_body(*pull) for pull in pulls], offset_range, arguments)


@given(damaged_bodies(), REQUIRED, ARGUMENTS)
def test_what_python_calls_damaged_is_refused(
    bodies: list[bytes], offset_range: tuple[int, int], arguments: Arguments
) -> None:
    columns, tags, restores_origin = arguments
    try:
        ColumnDecoder(columns, broker_name="b", tags=tags, restores_origin=restores_origin).decode(
            bodies, *offset_range
        )
    except RemoteProtocolError:
        assert not is_accepted(bodies, offset_range, arguments)
    else:
        is_accepted(bodies, offset_range, arguments)
