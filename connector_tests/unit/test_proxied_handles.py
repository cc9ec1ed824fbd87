"""Handles of a proxy's response: what holds of its numbers, with messages that were stored for later places, and with
handles that a producer wrote."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketmq_spark.pop.proxied_handles import UNVERIFIED, handles_of_response
from rocketmq_spark.pop.receipt_handles import BrokerHandle, OpaqueHandle, ReceiptHandle, is_unverified

CALLED_MS = 60_417
TIMES = f"1795445135749 {CALLED_MS} 3"
OLD_TIMES = "1763712000000 60000 5"
ORDERED_TIMES = "1795445135749 43200000 999"
"""By those a broker would set the group's offset, behind messages that nobody has read."""

FORGED_TIMES = [OLD_TIMES, ORDERED_TIMES, "1999999999999 60000 3", "1795445135749 60416 3"]


class Reported(NamedTuple):
    handle: str
    queue_id: int
    offset: int


def reported(place: int, offset: int, *, retry: str = "0", start: int = 0, queue_id: int = 7) -> Reported:
    """The message that is stored for ``offset``, and which the proxy calls the one at ``place``."""
    return Reported(f"{start} {TIMES} {retry} broker-a {queue_id} {place} 99", queue_id, offset)


def forged(offset: int, retry: str = "0", *, times: str = OLD_TIMES, names: int | None = None) -> Reported:
    """With a handle that its producer wrote, of the message at ``names``, or of itself."""
    return Reported(f"0 {times} {retry} broker-a 7 {offset if names is None else names} 99", 7, offset)


def handles(*response: Reported) -> list[ReceiptHandle]:
    return handles_of_response("T", "broker-a", response, CALLED_MS)


def places(*response: Reported) -> list[int | None]:
    """By which each can be acknowledged; None: by none."""
    return [one.offset if isinstance(one, BrokerHandle) else None for one in handles(*response)]


def test_a_handle_is_the_proxys_own() -> None:
    assert handles(reported(3, 3)) == [BrokerHandle.parse("T", f"0 {TIMES} 0 broker-a 7 3")]


def test_a_broker_has_made_no_long_handle() -> None:
    """A checkpoint lists all of a batch, and Python reads numbers of some thousand digits."""
    long = Reported(f"0 1795445135749 {CALLED_MS} {'9' * 4_000} 0 broker-a 7 3", 7, 3)
    assert handles(long) == [OpaqueHandle("T", "broker-a", UNVERIFIED)]


def test_messages_of_a_moved_queue_keep_the_places_of_their_handles() -> None:
    response = [reported(0, 0), reported(1, 4), reported(2, 5), reported(3, 9)]
    assert places(*response) == [0, 1, 2, 3]


def test_queues_of_one_response_are_judged_by_themselves() -> None:
    moved, falls = [reported(1, 4), reported(2, 5)], [reported(1, 4, queue_id=8), reported(3, 5, queue_id=8)]
    assert places(*moved, *falls) == [1, 2, None, None]
    assert places(reported(5, 5, retry="1"), *moved) == [5, 1, 2]


@pytest.mark.parametrize(
    "response",
    [
        [reported(1, 4), reported(1, 4)],
        [reported(2, 5), reported(3, 6), reported(2, 7)],
        [reported(3, 2)],
        [reported(1, 4), reported(2, 4)],
    ],
)
def test_no_place_is_certain_where_numbers_fall(response: list[Reported]) -> None:
    """After a broker started again, two messages of one queue may be stored for one offset."""
    assert places(*response) == [None] * len(response)


def test_a_message_with_its_stored_offset_is_certain_though_others_fall() -> None:
    assert places(reported(2, 5), reported(3, 6), reported(4, 4), reported(2, 5)) == [None, None, 4, None]


def test_messages_behind_a_forged_handle_are_not_acknowledged_by_wrong_numbers() -> None:
    """It names a retry topic, so the proxy numbers what is behind it one too low."""
    assert places(reported(0, 0), forged(1, "1"), reported(1, 2), reported(2, 3)) == [0, None, None, None]


@pytest.mark.parametrize("retry", ["0", "1"])
def test_messages_beside_a_forged_handle_with_their_stored_offsets_are_certain(retry: str) -> None:
    assert places(forged(0, retry), reported(1, 1), reported(2, 2)) == [None, 1, 2]
    assert places(reported(1, 1), reported(2, 2), forged(3, retry)) == [1, 2, None]
    assert places(reported(1, 1), Reported("no handle", 7, 2), reported(4, 4)) == [1, None, 4]


def test_a_message_between_two_forged_handles_is_uncertain() -> None:
    """The first may be of a retry topic, and the second have no number: in a moved queue the message between then has
    that of the second, which may equal its stored offset."""
    assert places(forged(9), reported(1, 1), forged(2, "1"), reported(3, 3, retry="1")) == [None, None, None, 3]


def test_a_handle_of_another_queue_is_a_producers() -> None:
    text = f"0 {TIMES} 0 broker-a 8 3 99"
    assert handles(Reported(text, 7, 3)) == [OpaqueHandle("T", "broker-a", text)]


@pytest.mark.parametrize("times", FORGED_TIMES)
@pytest.mark.parametrize("retry", ["0", "1"])
def test_a_forged_handle_does_not_verify_itself(times: str, retry: str) -> None:
    """Alone in its response it was mistaken for the broker's: by an acknowledgement waiting messages were lost, and by
    a change of its invisible duration an acknowledged one was redelivered."""
    (handle,) = handles(forged(6, retry, times=times, names=5))
    assert is_unverified(handle)


@pytest.mark.parametrize("times", FORGED_TIMES)
def test_forged_handles_do_not_outvote_the_others(times: str) -> None:
    """Honest messages beside as many forged ones were not acknowledged."""
    assert places(reported(0, 0), forged(1, times=times)) == [0, None]
    assert (
        places(reported(0, 0), reported(1, 1), *(forged(offset, times=times) for offset in range(2, 7)))
        == [0, 1] + [None] * 5
    )
    assert places(reported(4, 4, retry="1"), forged(0, times=times), forged(1, times=times)) == [4, None, None]


@pytest.mark.parametrize("times", [f"1795445135748 {CALLED_MS} 3", f"1795445135749 {CALLED_MS} 4"])
def test_no_handle_is_certain_where_a_producer_guessed_the_duration(times: str) -> None:
    assert places(reported(0, 0), forged(1, times=times)) == [None, None]


@pytest.mark.parametrize("revive_queue_id", [999, -1])
def test_a_revive_queue_that_is_none_of_the_brokers_proves_a_handle_forged(revive_queue_id: int) -> None:
    times = f"1795445135749 {CALLED_MS} {revive_queue_id}"
    assert places(reported(0, 0), forged(1, times=times)) == [0, None]
    assert places(forged(1, times=times)) == [None]


@pytest.mark.parametrize("number", ["99", "-1"])
def test_an_uncertain_handle_is_probed_no_more(number: str) -> None:
    response = [Reported(f"0 {TIMES} 0 broker-a 7 3 {number}", 7, 2)]
    (handle,) = handles(*response)
    assert handle == OpaqueHandle("T", "broker-a", response[0].handle)
    assert is_unverified(handle)


@pytest.mark.parametrize("text", [f"0 {TIMES} 0 {'b' * 30_000} 7 3 99", "g" * 1_025], ids=["producer", "gateway"])
def test_a_long_handle_is_unverified_and_not_kept(text: str) -> None:
    """The checkpoint and the progress had 30 KB for each such message, which producers send in a batch."""
    (handle,) = handles(Reported(text, 7, 3))
    assert is_unverified(handle)
    assert len(handle.text) < 100


def test_a_gateways_own_handles_are_kept() -> None:
    (handle,) = handles(Reported("g" * 1_024, 7, 3))
    assert not is_unverified(handle)
    (handle,) = handles(Reported("a gateway's", 7, 3))
    assert handle == OpaqueHandle("T", "broker-a", "a gateway's")
    assert not is_unverified(handle)


class Stored(NamedTuple):
    """A message of queue 7."""

    redelivered: int | None
    """Its offset in the queue of a retry topic; None: it is of the topic itself."""
    forged_retry: str | None
    """In what a producer wrote as its handle; None: it wrote nothing."""
    forged_times: str
    forged_offset: int | None
    undelivered_before: int | None
    """Messages of an IPv6 host's flags before it; None: the broker was started again."""


STORED = st.builds(
    Stored,
    st.none() | st.integers(0, 8),
    st.sampled_from([None, None, None, "0", "1"]),
    st.sampled_from(FORGED_TIMES),
    st.none() | st.integers(0, 8),
    st.sampled_from([0, 0, 0, 1, None]),
)


def responded(messages: list[Stored]) -> tuple[list[Reported], list[int | None]] | None:
    """What a proxy makes of a broker's response, and the true place of each that has one in the topic itself; None: it
    fails. Source: ``client/impl/MQClientAPIImpl.java#processPopResponse``."""
    places: list[int] = []
    numbered: list[int] = []
    offsets: list[int] = []
    moved = 0
    for one in messages:
        moved = 0 if one.undelivered_before is None else moved + one.undelivered_before
        offset = len(places) + moved if one.redelivered is None else one.redelivered
        if one.redelivered is None:
            places.append(len(places))
        if (one.forged_retry or ("0" if one.redelivered is None else "1")) == "0":
            numbered.append(offset)
        offsets.append(offset)
    response: list[Reported] = []
    for one, offset in zip(messages, offsets, strict=True):
        if one.forged_retry is not None:
            response.append(forged(offset, one.forged_retry, times=one.forged_times, names=one.forged_offset))
        elif one.redelivered is not None:
            response.append(reported(offset, offset, retry="1"))
        elif numbered.index(offset) < len(places):
            response.append(reported(places[numbered.index(offset)], offset))
        else:
            return None
    left = iter(places)
    of_the_topic = [None if one.redelivered is not None else next(left) for one in messages]
    return response, [None if one.forged_retry else place for one, place in zip(messages, of_the_topic, strict=True)]


@given(st.lists(STORED, max_size=8))
@settings(max_examples=1_000, deadline=None)
def test_no_message_is_acknowledged_by_the_place_of_another(messages: list[Stored]) -> None:
    made = responded(messages)
    if made is None:
        return
    response, true = made
    found = handles(*response)
    ours = [(one, place) for one, place in zip(found, true, strict=True) if place is not None]
    assert all(one.offset == place for one, place in ours if isinstance(one, BrokerHandle))
    for one, stored in zip(found, messages, strict=True):
        if stored.forged_retry is not None:
            assert is_unverified(one), "no request is made by it"
        elif stored.redelivered is not None:
            assert isinstance(one, BrokerHandle), "whatever is beside it"
    if not any(one.forged_retry or one.undelivered_before is None for one in messages):
        assert all(isinstance(one, BrokerHandle) for one in found)
