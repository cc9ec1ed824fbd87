"""Kinds of option values: how a text is parsed, and a description of the accepted values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from rocketmq_spark.model import MessageQueue, QueueRange, split_address
from rocketmq_spark.options.queue_positions import EARLIEST, GROUP_WORDS, LATEST, QueuePositions
from rocketmq_spark.options.times import parse_duration, parse_local_time, parse_time
from rocketmq_spark.security import Secret

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """Parser of an option's text. ``parse`` raises ValueError for an invalid text; ``Option`` reports it.

    ``expected``: the accepted values, for an error.
    """

    expected: str
    parse: Callable[[str], T]


_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:;,\[\]]+):[0-9]{1,5}")
_TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")
WRITABLE_TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")
_GROUP: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,120}")
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
SYSTEM_GROUPS: Final = frozenset(
    {
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_PULL",
        "CID_RMQ_SYS_TRANS",
        "CLIENT_INNER_PRODUCER",
        "DEFAULT_CONSUMER",
        "DEFAULT_PRODUCER",
        "FILTERSRV_CONSUMER",
        "SCHEDULE_CONSUMER",
        "SELF_TEST_C_GROUP",
        "SELF_TEST_P_GROUP",
        "TOOLS_CONSUMER",
        "__MONITOR_CONSUMER",
    }
)
"""System groups of RocketMQ, for which brokers have special rules. Source:
``common/MixAll.java#PREDEFINE_GROUP_SET``."""

_QUEUE: Final = re.compile(r"([%|a-zA-Z0-9_-]+)@([^\s;](?:[^\x00-\x1f;]*[^\s;])?):([0-9]{1,6})")
"""A broker name may contain blanks."""
_BROKER: Final = re.compile(r"(?=.*\S)[^\x00-\x1f\x7f\ud800-\udfff]+")
_RANGE: Final = re.compile(
    r"([%|a-zA-Z0-9_-]+)@((?=\S)(?:(?!:[0-9]{1,10}\[)[^\x00-\x1f])+(?<=\S)):([0-9]{1,10})"
    r"\[([0-9]{1,19}),([0-9]{1,19})\)"
)
"""A broker name ends before the first ``:id[``. It may contain commas, semicolons and brackets."""
_RANGES: Final = re.compile(rf"(?:{_RANGE.pattern}(?:\s*,\s*(?=\S)|$))*")
_INSTANCE: Final = re.compile(r"[^\s@]{1,100}")
_EXPRESSION: Final = re.compile(r"[^\x00-\x08\x0b\x0c\x0e-\x1f]*[^\x00-\x20|][^\x00-\x08\x0b\x0c\x0e-\x1f]*")
_SQL: Final = re.compile(
    r"""\w \s* (<>|[<>]=?) \s* [-+.\d'] | \w \s+ (<>|[<>]=?|=) \s+ \S | \w \s* = \s* '
    | \bIS \s+ (NOT\s+)? NULL\b | \bIN \s* \( | \bBETWEEN \s+ \S+ \s+ AND\b | \s(CONTAINS|STARTSWITH|ENDSWITH) \s* '
    | = \S* \s+ (AND|OR) \s+ \S+ =""",
    re.IGNORECASE | re.VERBOSE,
)
_SEPARATOR: Final = re.compile(r"[\x01\x02]")
"""Separators of encoded properties, which no name may contain."""
MAX_QUEUE_ID: Final = 2**31 - 1
_QUEUE_ID: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_INTEGER: Final = re.compile(r"\s*[+-]?[0-9]+\s*")  # unlike int(): no underscores, no digits of other scripts


def _parse_address(text: str) -> str:
    """Return ``host:port`` or ``[ipv6]:port`` unchanged. Raises ValueError for other text, or a port not 1 to 65535."""
    if _ADDRESS.fullmatch(text) is None:
        raise ValueError
    split_address(text)
    return text


def _parse_addresses(text: str) -> tuple[str, ...]:
    """Return the addresses between ``;`` or ``,``, each once, in order. Raises ValueError for none and any invalid."""
    return tuple(dict.fromkeys(map(_parse_address, _listed(text, ";,"))))


def _parse_address_map(text: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs of ``advertised=reachable`` addresses between ``;`` or ``,``, in order; () for an empty text.
    Raises ValueError for any other text, and for a repeated advertised address."""
    if not text:
        return ()
    pairs = [[side.strip() for side in pair.split("=")] for pair in _listed(text, ";,")]
    if any(len(pair) != 2 for pair in pairs) or len({pair[0] for pair in pairs}) < len(pairs):
        raise ValueError
    return tuple((_parse_address(advertised), _parse_address(reachable)) for advertised, reachable in pairs)


def _listed(text: str, separators: str) -> list[str]:
    """Split ``text`` at each character of ``separators``, and return the stripped parts, empty ones too; [""] for an
    empty text. Ignores separators at its end, as Java's ``String.split`` does."""
    return [part.strip() for part in re.split(f"[{separators}]", text.rstrip(f"{separators} \t"))]


def _matching(pattern: re.Pattern[str]) -> Callable[[str], str]:
    """Return a parser that returns texts matching ``pattern`` in full, and raises ValueError for other ones."""

    def parse(text: str) -> str:
        """Return ``text`` unchanged. Raises ValueError if it does not match ``pattern`` in full."""
        if not pattern.fullmatch(text):
            raise ValueError
        return text

    return parse


def is_system_group(group: str) -> bool:
    """Return whether RocketMQ uses the group itself: by its name in SYSTEM_GROUPS, or by its prefix."""
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def _parse_group(text: str) -> str:
    """Return a valid group name unchanged. Raises ValueError for any other text, and for a system group."""
    if is_system_group(text):
        raise ValueError
    return _matching(_GROUP)(text)


def _parse_topics(text: str) -> tuple[str, ...]:
    """Return the topics between commas, each once, in order. Raises ValueError for none and any invalid name."""
    topic = _matching(_TOPIC)
    return tuple(dict.fromkeys(map(topic, _listed(text, ","))))


def is_sql_comparison(text: str) -> bool:
    """Return whether ``text`` has a SQL92 comparison, upper or lower case: a sign between blanks or before a literal,
    quoted after ``=``; IS NULL, IS NOT NULL, ``IN (``, ``BETWEEN 1 AND``; CONTAINS, STARTSWITH or ENDSWITH and a quote;
    two ``=`` joined by AND or OR. ``a=1``, ``a>b`` and words alone, as in ``a AND b``, are no comparison."""
    return _SQL.search(text) is not None


def _parse_names(text: str) -> tuple[str, ...]:
    """Return the stripped names between commas, without empty ones, repeated ones too; () for an empty text. Raises
    ValueError for another text without names."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    return names if names or not text else _reject()


def _parse_properties(text: str) -> tuple[str, ...]:
    """Return the names separated by commas, each once, in order; () for an empty text. Raises ValueError for names that
    differ in case only, which Spark treats as equal, for the characters 0x01 and 0x02, and for commas only."""
    names = tuple(dict.fromkeys(_parse_names(text)))
    if _SEPARATOR.search(text) or len({name.lower() for name in names}) < len(names):
        raise ValueError
    return names


def _parse_queues(text: str) -> tuple[MessageQueue, ...]:
    """Return the queues ``topic@broker:id`` between commas, repeated ones too; () for an empty text. Raises ValueError
    for any other text."""
    return tuple(map(_parse_queue, _parse_names(text)))


def _parse_queue(text: str) -> MessageQueue:
    """Return the queue ``topic@broker:id``, an ID of 1 to 6 digits. Raises ValueError for any other text."""
    match = _QUEUE.fullmatch(text)
    if match is None:
        raise ValueError
    return MessageQueue(match[1], match[2], int(match[3]))


def _parse_ranges(text: str) -> tuple[QueueRange, ...]:
    """Return the ranges of ``t@b:0[7,9), t@b:1[0,5)``, in their order; equal ranges count once, an empty text has none.
    Raises ValueError for any other text, a too large queue ID, and an end before the begin."""
    if not _RANGES.fullmatch(text):
        raise ValueError
    parts = dict.fromkeys(match.groups() for match in _RANGE.finditer(text))
    return tuple(
        QueueRange(MessageQueue(topic, broker_name, _queue_id(int(queue_id))), int(begin), int(end))
        for topic, broker_name, queue_id, begin, end in parts
    )


def _parse_assignment(text: str) -> tuple[MessageQueue, ...]:
    """Return the queues of ``{"topic":{"broker":[queue id, ...]}}``, sorted. Raises ValueError for any other text, a
    repeated name or queue ID, and an empty object or list."""
    try:
        topics = _named(_TOPIC, json.loads(text, object_pairs_hook=_reject_duplicates))
        queues = [
            MessageQueue(topic, broker_name, _queue_id(one))
            for topic, brokers in topics
            for broker_name, queue_ids in _named(_BROKER, brokers)
            for one in _non_empty_list(queue_ids)
        ]
    except (AttributeError, TypeError, RecursionError):
        raise ValueError from None
    return tuple(sorted(queues, key=MessageQueue.sort_key)) if len(set(queues)) == len(queues) else _reject()


def _non_empty_list(value: Any) -> list[Any]:
    """Return ``value``, a list. Raises ValueError for another value, and for an empty list: it would have no effect."""
    return value if isinstance(value, list) and value else _reject()


def _queue_id(value: Any) -> int:
    """Return ``value``, an ``int`` of 0 to MAX_QUEUE_ID. Raises ValueError for another value, also text or a bool."""
    return int(value) if type(value) is int and 0 <= value <= MAX_QUEUE_ID else _reject()


def _parse_pattern(text: str) -> re.Pattern[str]:
    """Return the compiled regular expression. Raises ValueError for an invalid or empty one."""
    try:
        return re.compile(text or _reject())
    except (re.error, OverflowError, RecursionError):
        raise ValueError from None


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict. Raises ValueError for a repeated name, of which Python would use the last value."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else _reject()


def _positions(named: Mapping[str, int], unnumbered: Mapping[str, int]) -> Callable[[str], QueuePositions]:
    """Return a parser of one word for all queues, or of JSON by topic and queue. A value in JSON is a word, an offset
    from 0 on, or a number of ``named``. ``named``, ``unnumbered``: positions by word; words are in any case, and the
    only form of ``unnumbered`` positions. The parser raises ValueError for any other text."""
    words = {**named, **unnumbered}

    def position(value: Any) -> int:
        """Return a word's position, or a valid number unchanged. Raises ValueError for other values."""
        if isinstance(value, str) and value.lower() in words:
            return words[value.lower()]
        is_valid = type(value) is int and (0 <= value < 2**63 or value in named.values())
        return int(value) if is_valid else _reject()

    of_queues = _by_topic(position)

    def parse(text: str) -> QueuePositions:
        """Return the position of a word for all queues, or those in JSON. Raises ValueError for other text."""
        return QueuePositions(words[text.lower()]) if text.lower() in words else of_queues(text)

    return parse


def _time(value: Any) -> int:
    """Return the epoch ms of ``value``, an ``int`` or text. Raises ValueError, and the errors of ``parse_time``."""
    return parse_time(str(value)) if type(value) in {int, str} else _reject()


def _by_topic(position: Callable[[Any], int]) -> Callable[[str], QueuePositions]:
    """Return a parser of ``{"topic":value}`` and ``{"topic":{"broker":{"queue id":value}}}``; ``position`` converts
    each value. The parser raises ValueError for any other text, repeated names and empty objects."""

    def parse(text: str) -> QueuePositions:
        """Return the positions in JSON by topic and queue. Raises ValueError for any other text."""
        topics: list[tuple[str, int]] = []
        queues: list[tuple[MessageQueue, int]] = []
        try:
            for topic, value in _named(_TOPIC, json.loads(text, object_pairs_hook=_reject_duplicates)):
                if isinstance(value, dict):
                    queues += _queue_positions(topic, value, position)
                else:
                    topics.append((topic, position(value)))
        except (AttributeError, TypeError, RecursionError):
            raise ValueError from None
        return QueuePositions(topics=tuple(topics), queues=tuple(queues))

    return parse


def _queue_positions(
    topic: str, brokers: Mapping[str, Any], position: Callable[[Any], int]
) -> Iterator[tuple[MessageQueue, int]]:
    """Yield each queue of a topic's parsed JSON, ``brokers`` by name, with its position. Raises ValueError,
    AttributeError or TypeError for a wrong form."""
    for broker_name, by_id in _named(_BROKER, brokers):
        for queue_id, value in _named(_QUEUE_ID, by_id):
            if int(queue_id) > MAX_QUEUE_ID:
                _reject()
            yield MessageQueue(topic, broker_name, int(queue_id)), position(value)


def _named(pattern: re.Pattern[str], entries: Any) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a JSON object. Raises ValueError for a name that ``pattern`` does not match, and for an
    empty object, which would have no effect; AttributeError for another value."""
    name_of = _matching(pattern)
    for name, value in entries.items() or _reject():
        yield name_of(name), value


def _parse_boolean(text: str) -> bool:
    """Return the value of ``true`` or ``false``, in any case. Raises ValueError for any other text."""
    return {"true": True, "false": False}[text.lower()] if text.lower() in {"true", "false"} else _reject()


def _parse_non_empty(text: str) -> str:
    """Return ``text``. Raises ValueError if it is empty."""
    return text or _reject()


def _reject() -> Any:
    """Raise ValueError, in the form of an expression."""
    raise ValueError


def integer(minimum: int, maximum: int = 2**31 - 1) -> Kind[int]:
    """Return the kind of an integer in ``[minimum, maximum]``; its parser raises ValueError for any other text."""

    def parse(text: str) -> int:
        """Return the integer. Raises ValueError for other text, or one out of range."""
        value = int(_matching(_INTEGER)(text))
        return value if minimum <= value <= maximum else _reject()

    return Kind(f"an integer from {minimum} to {maximum}", parse)


def choice(*names: str) -> Kind[str]:
    """Return the kind of one of ``names``, in any case, spelt as in ``names``; ValueError for any other text."""
    by_lower = {name.lower(): name for name in names}

    def parse(text: str) -> str:
        return by_lower[text.lower()] if text.lower() in by_lower else _reject()

    return Kind(" or ".join(f"'{name}'" for name in names), parse)


ADDRESSES: Final = Kind("'host:port' addresses separated by semicolons or commas", _parse_addresses)
ADDRESS_MAP: Final = Kind(
    "'advertised=reachable' pairs of 'host:port' addresses separated by semicolons or commas, without repeated "
    "advertised addresses",
    _parse_address_map,
)
TOPICS: Final = Kind(
    "topic names separated by commas (letters, digits and %|_-, at most 255 characters each)", _parse_topics
)
TOPIC_PATTERN: Final = Kind("a regular expression of Python that matches names of topics as a whole", _parse_pattern)
ASSIGNMENT: Final = Kind(
    """JSON '{"topic":{"broker":[queue id, ...]}}' with a queue for each topic and broker, and without repeated """
    "names or IDs",
    _parse_assignment,
)
TOPIC: Final = Kind("a topic name (letters, digits and %|_-, at most 127 characters)", _matching(WRITABLE_TOPIC))
"""For writing: brokers store messages in no topic with a longer name."""
GROUP: Final = Kind(
    f"a group name (letters, digits and %|_-, at most 120 characters) that is no system group of RocketMQ, such as "
    f"{SYSTEM_GROUP_PREFIX}... or TOOLS_CONSUMER",
    _parse_group,
)
INSTANCE: Final = Kind("a name of at most 100 characters without white space or '@'", _matching(_INSTANCE))
EXPRESSION: Final = Kind(
    "tags joined by '||', '*', or, with 'expressionType=SQL92', a SQL92 expression", _matching(_EXPRESSION)
)
NAMES: Final = Kind("names separated by commas", _parse_names)
PROPERTIES: Final = Kind("property names separated by commas that differ in more than their case", _parse_properties)
QUEUES: Final = Kind("queues 'topic@broker:id' separated by commas", _parse_queues)
RANGES: Final = Kind("ranges 'topic@broker:id[from,to)' with from <= to, separated by commas", _parse_ranges)
STRATEGY: Final = Kind("the name of a strategy or 'module:Class'", _matching(re.compile(r"[\w.:-]+")))
_OR_GROUP: Final = "'group', 'group:earliest' or 'group:latest'"
_IN_JSON: Final = """'{"topic":"earliest"}' or '{"topic":{"broker":{"queue id":offset}}}'"""
STARTING_OFFSETS: Final = Kind(
    f"'earliest', 'latest', {_OR_GROUP}, or JSON by topic: {_IN_JSON}, where -2 is earliest and -1 is latest, with a "
    "queue for each broker, and without repeated names",
    _positions({"earliest": EARLIEST, "latest": LATEST}, GROUP_WORDS),
)
START_POSITIONS: Final = Kind(
    f"'earliest', {_OR_GROUP}, or JSON by topic: {_IN_JSON}, where -2 is earliest, with every queue of every topic, "
    "and without repeated names",
    _positions({"earliest": EARLIEST}, GROUP_WORDS),
)
END_POSITIONS: Final = Kind(
    f"'latest', {_OR_GROUP}, or JSON by topic: {_IN_JSON.replace('earliest', 'latest')}, where -1 is latest, with "
    "every queue of every topic, and without repeated names",
    _positions({"latest": LATEST}, GROUP_WORDS),
)
ANY_POSITIONS: Final = Kind(
    """JSON by topic: '{"topic":"earliest"}' or '{"topic":{"broker":{"queue id":offset}}}', where -2 is earliest and """
    "-1 latest, without repeated names",
    _positions({"earliest": EARLIEST, "latest": LATEST}, {}),
)
_TIME: Final = "milliseconds since 1970-01-01 UTC, or an ISO-8601 time with a zone, such as '2026-01-31T12:00:00Z'"
TIME: Final = Kind(_TIME, parse_time)
DURATION: Final = Kind("a duration such as '500ms', '30s', '15m', '2h' or '1d'", parse_duration)
TIMES: Final = Kind(
    """JSON by topic: '{"topic":time}' or '{"topic":{"broker":{"queue id":time}}}', with every queue of every topic, """
    f"and without repeated names. A time: {_TIME}",
    _by_topic(_time),
)
LOCAL_TIME: Final = Kind("a time 'yyyyMMddHHmmss'", parse_local_time)
TEXT: Final = Kind("text", str)
NON_EMPTY_TEXT: Final = Kind("non-empty text", _parse_non_empty)
SECRET: Final = Kind("non-empty text", lambda text: Secret(_parse_non_empty(text)))
PATH: Final = Kind("the path of a file", _parse_non_empty)
BOOLEAN: Final = Kind("'true' or 'false'", _parse_boolean)
