"""Start and end positions of a batch read, by topic and queue."""

from __future__ import annotations

import pytest

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options.kinds import END_POSITIONS, START_POSITIONS, TIMES, Kind
from rocketmq_spark.options.queue_positions import EARLIEST, GROUP, GROUP_WORDS, LATEST, QueuePositions

FIRST, SECOND, OTHER = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1), MessageQueue("u", "b", 0)
POSITIONS = QueuePositions(topics=(("t", 7),), queues=((FIRST, 3),))


def test_queue_precedes_its_topic_and_that_everything() -> None:
    assert POSITIONS.by_queue([FIRST, SECOND, OTHER]) == {FIRST: 3, SECOND: 7}
    everywhere = QueuePositions(9, POSITIONS.topics, POSITIONS.queues)
    assert everywhere.by_queue([FIRST, SECOND, OTHER]) == {FIRST: 3, SECOND: 7, OTHER: 9}


def test_values_are_all_positions() -> None:
    assert POSITIONS.values() == [7, 3]
    assert QueuePositions(0).values() == [0]
    assert QueuePositions().values() == []


def test_unlisted_and_unknown_queues_are_found() -> None:
    assert POSITIONS.unlisted([FIRST, OTHER, SECOND]) == [OTHER]
    assert POSITIONS.unknown([OTHER]) == ["t", "t@b:0"]
    assert POSITIONS.unknown([FIRST, SECOND]) == []
    assert QueuePositions(LATEST).unlisted([FIRST]) == []
    assert QueuePositions(LATEST).unknown([FIRST]) == []


def test_json_sets_topics_and_queues() -> None:
    parsed = START_POSITIONS.parse('{"t":{"b":{"0":5,"1":-2,"2":"Earliest"}},"u":"earliest","v":0}')
    third = MessageQueue("t", "b", 2)
    queues = ((FIRST, 5), (SECOND, EARLIEST), (third, EARLIEST))
    assert parsed == QueuePositions(topics=(("u", EARLIEST), ("v", 0)), queues=queues)
    assert END_POSITIONS.parse("LATEST") == QueuePositions(LATEST)
    assert TIMES.parse(f'{{"t":{2**63 - 1}}}') == QueuePositions(topics=(("t", 2**63 - 1),))


@pytest.mark.parametrize("kind", [START_POSITIONS, END_POSITIONS])
def test_groups_offset_is_a_word_everywhere(kind: Kind[QueuePositions]) -> None:
    for word, position in GROUP_WORDS.items():
        assert kind.parse(word.upper()) == QueuePositions(position)
        expected = QueuePositions(topics=(("u", position),), queues=((FIRST, position), (SECOND, 0)))
        assert kind.parse(f'{{"t":{{"b":{{"0":"{word}","1":0}}}},"u":"{word}"}}') == expected
        assert expected.uses_group
    assert not POSITIONS.uses_group


@pytest.mark.parametrize(
    "text",
    [
        "latest", "", "[]", "{}", "5", "group:", "group:5", '{"t":-1}', '{"t":-4}', '{"t":-5}', '{"t":-3}', '{"t":-6}',
        f'{{"t":{2**63}}}', '{"t":true}', '{"t":1.0}',
        '{"t":null}', '{"t":[]}', '{"t":{}}', '{"t":{"b":{}}}', '{"t":{"b":5}}', '{"t":{"b":{"x":5}}}',
        '{"t":{"b":{"2147483648":5}}}', '{"a b":5}', '{"t":5,"t":6}', '{"t":"latest"}', "[" * 100_000,
    ],
)  # fmt: skip
def test_other_start_positions_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        START_POSITIONS.parse(text)


def test_times_have_no_words() -> None:
    for word in ("group", '{"t":"group"}', '{"t":-3}', '{"t":true}', '{"t":1.5}', '{"t":null}'):
        with pytest.raises(ValueError):
            TIMES.parse(word)
    assert QueuePositions(GROUP).by_queue([FIRST]) == {FIRST: GROUP}


@pytest.mark.parametrize("text", ["earliest", '{"t":"earliest"}', '{"t":-2}'])
def test_other_ends_and_times_are_refused(text: str) -> None:
    assert START_POSITIONS.parse(text).values() == [EARLIEST]
    for kind in (END_POSITIONS, TIMES):
        with pytest.raises(ValueError):
            kind.parse(text)
