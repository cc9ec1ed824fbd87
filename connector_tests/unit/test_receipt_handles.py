"""Handles: as servers tell them, after a change, and in checkpoints."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_spark.pop.receipt_handles import (
    MAX_CLOCK_LEAD_MS,
    BrokerHandle,
    OpaqueHandle,
    PopCheckPoint,
    ReceiptHandle,
    handle_of,
    handles_from_json,
    handles_to_json,
)

TIME_MS = 1_795_445_135_749
CHECK_POINT = PopCheckPoint("T", 100, TIME_MS, 60_000, 3, "0", "broker-a", 7)

CHECK_POINTS = st.builds(
    PopCheckPoint,
    st.sampled_from(["T", "orders"]),
    st.integers(0, 2**40),
    st.integers(0, 2**45),
    st.integers(0, 10**8),
    st.integers(-1, 7),
    st.sampled_from(["0", "1", "2"]),
    st.sampled_from(["broker-a", "broker-b", "my broker", " a  7 "]),
    st.integers(0, 15),
)
HANDLES = st.builds(lambda one, place: BrokerHandle(one, one.start_offset + place), CHECK_POINTS, st.integers(0, 40))
OPAQUE = st.builds(OpaqueHandle, st.sampled_from(["T", "orders"]), st.sampled_from(["broker-a", "a b"]), st.text())


def test_a_changed_handle_begins_at_its_message() -> None:
    after_change = BrokerHandle(CHECK_POINT, 117).after_change(pop_time_ms=5, invisible_ms=6, revive_queue_id=2)
    assert after_change == BrokerHandle(PopCheckPoint("T", 117, 5, 6, 2, "0", "broker-a", 7), 117)
    assert after_change.text == "117 5 6 2 0 broker-a 7 117"


@pytest.mark.parametrize(
    ("given_out_ms", "invisible_ms", "is_over"),
    [
        (TIME_MS, 60_000, False),
        (TIME_MS - 660_000, 60_000, False),
        (TIME_MS - 660_001, 60_000, True),
        (TIME_MS - 43_800_001, 10**15, True),
        (TIME_MS - 43_800_000, 10**15, False),
        (TIME_MS + MAX_CLOCK_LEAD_MS, 60_000, False),
        (TIME_MS + MAX_CLOCK_LEAD_MS + 1, 60_000, True),
    ],
)
def test_a_handle_is_long_over_after_its_duration(given_out_ms: int, invisible_ms: int, is_over: bool) -> None:
    pop_check_point = CHECK_POINT._replace(pop_time_ms=given_out_ms, invisible_ms=invisible_ms)
    assert BrokerHandle(pop_check_point, 117).is_long_expired(TIME_MS) is is_over


@pytest.mark.parametrize("offset", [99, 100 + 2**20 + 1])
def test_a_handle_beyond_its_response_is_no_brokers(offset: int) -> None:
    assert BrokerHandle(CHECK_POINT, offset).is_long_expired(TIME_MS)


def test_handles_before_their_start_are_read_back() -> None:
    """As a producer may have made them up, before they were told from a broker's."""
    made_up = [BrokerHandle(CHECK_POINT, offset) for offset in (-3, 97, 98, 99, 100, 103)]
    assert handles_to_json(made_up) == {str(CHECK_POINT): "-103,-3-0,3"}
    assert handles_from_json(handles_to_json(made_up)) == made_up


OF_A_BROKER = f"100 {TIME_MS} 60000 3 0 broker-a 7 117"


@pytest.mark.parametrize("broker_name", ["my broker", "a  7", " a ", "broker 7 117"])
def test_a_brokers_name_with_blanks_is_read_back(broker_name: str) -> None:
    handle = BrokerHandle(CHECK_POINT._replace(broker_name=broker_name), 117)
    assert handles_from_json(handles_to_json([handle])) == [handle]
    assert [handle_of("T", broker_name, text) for text in (handle.text, f"{handle.text} 1443")] == [handle, handle]
    assert isinstance(handle_of("T", "broker-a", handle.text), OpaqueHandle)


@pytest.mark.parametrize("text", [OF_A_BROKER, f"{OF_A_BROKER} 1443", f"{OF_A_BROKER} -1"])
def test_a_proxys_handle_is_the_brokers_with_a_number_more_which_is_not_requested(text: str) -> None:
    handle = handle_of("T", "broker-a", text)
    assert handle == BrokerHandle(CHECK_POINT, 117)
    assert (handle.text, handle.topic, handle.broker_name) == (OF_A_BROKER, "T", "broker-a")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AFFGADFA-X9",
        f"{OF_A_BROKER} 1 2",
        OF_A_BROKER.replace("broker-a", "broker-b"),
        OF_A_BROKER.replace(" 3 0 ", " 3 9 "),
        OF_A_BROKER.replace("117", "0117"),
        "100 60000 3 0 broker-a 7 117",
    ],
)
def test_a_handle_that_is_spelled_in_another_way_is_kept_as_it_is(text: str) -> None:
    handle = handle_of("T", "broker-a", text)
    assert handle == OpaqueHandle("T", "broker-a", text)
    assert handles_from_json(handles_to_json([handle])) == [handle]


def test_a_checkpoint_has_them_in_short() -> None:
    handles = [BrokerHandle(CHECK_POINT, offset) for offset in (100, 101, 102, 105, 107, 108)]
    assert handles_to_json(handles) == {f"T 100 {TIME_MS} 60000 3 0 broker-a 7": "0-2,5,7-8"}


def test_a_checkpoint_that_spells_them_otherwise_is_not_read() -> None:
    with pytest.raises(ValueError, match="retry flag '3'"):
        handles_from_json({f"T  100 {TIME_MS} 60000 3 0 broker-a 7": "0"})


@given(st.lists(HANDLES | OPAQUE, unique=True))
def test_a_checkpoint_gives_back_what_it_was_given_in_one_spelling(handles: list[ReceiptHandle]) -> None:
    spelled = handles_to_json(handles)
    assert set(handles_from_json(spelled)) == set(handles)
    assert list(handles_to_json(reversed(handles)).items()) == list(spelled.items())


@pytest.mark.parametrize("handle", [5, None, ["x"]])
def test_handle_in_a_checkpoint_that_is_no_text_is_refused(handle: Any) -> None:
    """It was an AttributeError of the acknowledgement."""
    with pytest.raises(TypeError, match="handle"):
        handles_from_json({"T broker-a": ["x", handle]})
