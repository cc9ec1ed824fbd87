"""The shapes of what the connector says: of whole lines, of what stands behind who speaks, and of errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import Formatter
from typing import Final

from rocketmq_spark.conditions import CONDITIONS

LINE: Final = re.compile(
    r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (INFO|WARN|ERROR) rocketmq_spark "
    r"\[(?:group=\S+ clientId=\S+|producerGroup=\S+ topic=\S+)(?P<task> query=\S+ batch=\d+ task=\d+\.\d+)?\]: "
    r"(?P<said>.+)"
)
"""Time, level, group and client id, or a writer's group and topic; on executors query, batch, and task and attempt."""

_QUEUE = r"\S+@\S+:\d+"
_QUEUES = rf"{_QUEUE}(?:, {_QUEUE})*"
_RANGE = rf"\[\d+, \d+\) of {_QUEUE}"
_LEFT = r"(?:at most \d+ s more|for as long as it takes)"
_WHAT = r"(?:\d+ queues? of topic \S+ at \S+ \(\S+\)|the name servers|broker \S+|topic \S+)"
_CAUSE = r"(?:nobody serves them now; .*their positions stay, \d+ at \d+.*|\[ROCKETMQ_[A-Z_.]+\] .+)"

SHAPES: Final = {
    "joining": re.compile(r"joining the group, to read \S+(?:, \S+)*"),
    "rebalanced": re.compile(rf"rebalanced: added (?:none|\d+ \({_QUEUES}\)), dropped (?:none|\d+ \({_QUEUES}\))"),
    "left": re.compile(r"left the group"),
    "waiting": re.compile(rf"waiting for {_WHAT} \({_LEFT}\): {_CAUSE}"),
    "still waiting": re.compile(rf"still waiting for {_WHAT} \(for [\d.]+ s now, {_LEFT}\): {_CAUSE}"),
    "over": re.compile(rf"no longer waiting, after [\d.]+ s, for {_WHAT}(?:; {_WHAT})*"),
    "lost": re.compile(
        rf"\d+ offsets are lost, what they held is in no output: {_RANGE}(?:, {_RANGE})*: the broker deleted them "
        r"\(retention\)"
    ),
    "resumed": re.compile(
        r"going on where the group is, of which the checkpoint knows nothing, wherever the options would begin; \d+ of "
        rf"\d+ offsets are to be read: {_QUEUE} at \d+ of \[\d+, \d+\).*"
    ),
    "one batch": re.compile(
        r"Spark 4\.[01]\.\d+ runs availableNow and once as one batch, which the next start commits to the group; "
        r"rocketmq_spark\.run_available_now reads and commits all that is there"
    ),
    "messages left": re.compile(
        r"the batch does not hold all that is there: (?:some|\d+) messages are in none yet, and with availableNow or "
        r"once Spark 4\.[01]\.\d+ ends the run here; rocketmq_spark\.run_available_now reads on"
    ),
    "reset left": re.compile(
        rf"the reset of queue={_QUEUE} to offset=\d+ is left to the next start: no plan came after it"
    ),
    "reset lost": re.compile(
        rf"the reset of queue={_QUEUE} to offset=\d+ is lost: no plan came after it, and the broker did not take it "
        r"back\. Reset the group again"
    ),
    "moved": re.compile(
        rf"the group has been moved to where this query begins, as 'groupOffsets' says: {_QUEUE} from \d+ to \d+.*"
    ),
    "ahead": re.compile(
        r"group \S+ is \d+ offsets ahead of this checkpoint, and they do not come to this query: "
        rf"{_QUEUE}\[\d+,\d+\)(?:, {_QUEUE}\[\d+,\d+\))*\. Another member has read .+"
    ),
    "nothing to move": re.compile(r"the group is nowhere ahead of this checkpoint: .+"),
    "changed": re.compile(r"the checkpoint was written with '\w+' .+, and now it is .+\. What that loses: .+"),
}


def shapes_of(lines: list[str]) -> list[str]:
    """The shape of each line, in order. AssertionError for a line that has none."""
    return [_shape(line) for line in lines]


def _shape(line: str) -> str:
    whole = LINE.fullmatch(line)
    assert whole is not None, f"not like our lines: {line}"
    shapes = [name for name, shape in SHAPES.items() if shape.fullmatch(whole["said"])]
    assert len(shapes) == 1, f"{shapes or 'no shape'} of what is said: {line}"
    return shapes[0]


ERROR: Final = re.compile(r"\[ROCKETMQ_(?P<condition>[A-Z_.]+)\] ")
_RAISED: Final = re.compile(rf"rocketmq_spark\.errors\.\w+: {ERROR.pattern}")
"""What stands at the end of a stack: an error alone on its line."""


def misquoted(line: str) -> list[str]:
    """Return the conditions of errors in ``line`` whose text is not that of the table.

    The first has its advice, and no more if it was raised; its causes, which are inside it, have none of their own.
    """
    raised = _RAISED.match(line)
    outer, *causes = [raised, *ERROR.finditer(line, raised.end())] if raised else [*ERROR.finditer(line)]
    wrong = [] if _reads(outer, line, has_advice=True, is_all=raised is not None) else [outer["condition"]]
    return wrong + [
        found["condition"] for found in causes if not _reads(found, line) or _reads(found, line, has_advice=True)
    ]


def _reads(begin: re.Match[str], line: str, *, has_advice: bool = False, is_all: bool = False) -> bool:
    row = CONDITIONS.get(begin["condition"])
    if row is None:
        return False
    text = re.compile("".join(_patterns(f"{row.what} {row.advice}" if has_advice else row.what)))
    return (text.fullmatch if is_all else text.match)(line, begin.end()) is not None


def _patterns(template: str) -> Iterator[str]:
    for literal, name, _, _ in Formatter().parse(template):
        yield re.escape(literal)
        if name is not None:
            yield ".+"
