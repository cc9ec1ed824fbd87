"""The shapes of what the connector states: of whole lines, of what stands behind who uses, and of errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import Formatter
from typing import Final

from connector_tests.support.log_lines import KEY
from rocketmq_spark.conditions import CONDITIONS

LINE: Final = re.compile(
    r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (INFO|WARN|ERROR) rocketmq_spark "
    r"\[(?:group=\S+ clientId=\S+|producerGroup=\S+ topic=\S+)(?P<task> query=\S+ batch=\d+ task=\d+\.\d+)?\]: "
    r"(?P<message>.+)"
)
"""Time, level, group and client id, or a writer's group and topic; on executors query, batch, and task and attempt."""

_QUEUE = r"\S+@\S+:\d+"
_QUEUES = rf"{_QUEUE}(?:, {_QUEUE})*"
_RANGE = rf"\[\d+, \d+\) of {_QUEUE}"
_KEY = KEY.pattern
_REMAINING = r"(?:fails in \d+ s|no time limit)"
_RESOURCE = r"(?:\d+ queues? of topic \S+ at \S+ \(\S+\)|the name servers|broker \S+|topic \S+)"
_QUEUES_CAUSE = r"not in the route or not readable; .*offsets are kept: queue=\d+ offset=\d+.*"
_REASON = rf"(?:{_QUEUES_CAUSE}|\[ROCKETMQ_{_KEY}\] .+)"

SHAPES: Final = {
    "joining": re.compile(r"GROUP_JOIN_STARTED: Joining the group to read topics=\S+"),
    "rebalanced": re.compile(
        rf"REBALANCED: Queues added: (?:none|\d+ \({_QUEUES}\)); queues removed: (?:none|\d+ \({_QUEUES}\))"
    ),
    "left": re.compile(r"GROUP_LEFT: Left the group"),
    "waiting": re.compile(
        rf"(?:QUEUES_UNAVAILABLE: Waiting for {_RESOURCE} \({_REMAINING}\): {_QUEUES_CAUSE}"
        rf"|(?P<key>{_KEY}): Waiting for {_RESOURCE} \({_REMAINING}\): \[ROCKETMQ_(?P=key)\] .+)"
    ),
    "still waiting": re.compile(rf"{_KEY}: Still waiting for {_RESOURCE} \(for [\d.]+ s, {_REMAINING}\): {_REASON}"),
    "over": re.compile(rf"{_KEY}: Recovered after [\d.]+ s: {_RESOURCE}(?:; {_RESOURCE})*"),
    "replaced": re.compile(
        rf"{_KEY}: Now reported as {_KEY}(?:, {_KEY})*, after [\d.]+ s: {_RESOURCE}(?:; {_RESOURCE})*"
    ),
    "dropped": re.compile(rf"{_KEY}: Not recovered, but no longer used, after [\d.]+ s: {_RESOURCE}(?:; {_RESOURCE})*"),
    "lost": re.compile(
        r"DATA_LOSS\.OFFSETS_UNAVAILABLE: Skipping \d+ offsets that the query has not read; their messages are in no "
        rf"output: {_RANGE}(?:, {_RANGE})*: the broker deleted them \(retention\)"
    ),
    "resumed": re.compile(
        r"GROUP_OFFSETS_RESUMED: Checkpoint has no offsets of these queues; resuming from those of the group, start "
        rf"options are ignored\. To read: \d+ of \d+ offsets: queue={_QUEUE} offset=\d+ bounds=\[\d+, \d+\).*"
    ),
    "one batch": re.compile(
        r"SINGLE_BATCH_TRIGGER: Spark 4\.[01]\.\d+ runs a query with trigger 'availableNow' or 'once' as one batch\. "
        r"The next start of the query commits this batch to the group\. To read and commit all available messages, use "
        r"rocketmq_spark\.run_available_now"
    ),
    "messages left": re.compile(
        r"SINGLE_BATCH_INCOMPLETE: (?:Some|\d+) available messages are not in this batch\. With trigger 'availableNow' "
        r"or 'once', Spark 4\.[01]\.\d+ ends the run after this batch\. To read all of them, use "
        r"rocketmq_spark\.run_available_now"
    ),
    "reset left": re.compile(
        rf"OFFSET_RESET_DEFERRED: Reset of queue={_QUEUE} to offset=\d+ applies at the next start, because the query "
        r"ended before it planned another batch\. No action is required\."
    ),
    "reset lost": re.compile(
        rf"OFFSET_RESET_LOST: Reset of queue={_QUEUE} to offset=\d+ is lost: the query ended before it planned another "
        r"batch, and the broker rejected the request to keep the reset for the next start\. Reset the group again\."
    ),
    "moved": re.compile(
        rf"GROUP_OFFSETS_RESET: Reset the group's offsets as configured by 'groupOffsets': queue={_QUEUE} from=\d+ "
        r"to=\d+.*"
    ),
    "ahead": re.compile(
        r"GROUP_AHEAD_OF_CHECKPOINT: Committed offsets of group=\S+ are \d+ offsets ahead of this checkpoint; this "
        rf"query skips them: {_QUEUE}\[\d+,\d+\)(?:, {_QUEUE}\[\d+,\d+\))*\. Another member has read .+"
    ),
    "nothing to move": re.compile(
        r"GROUP_OFFSETS_KEPT: No committed offset of the group is ahead of this checkpoint; .+"
    ),
    "changed": re.compile(
        r"CHECKPOINT_OPTION_CHANGED: \w+ changed from '.+' to '.+' since this checkpoint was written\. .+"
    ),
}


def shapes_of(lines: list[str]) -> list[str]:
    """The shape of each line, in order. AssertionError for a line that has none."""
    return [_shape(line) for line in lines]


def _shape(line: str) -> str:
    entire = LINE.fullmatch(line)
    assert entire is not None, f"not like our lines: {line}"
    shapes = [name for name, shape in SHAPES.items() if shape.fullmatch(entire["message"])]
    assert len(shapes) == 1, f"{shapes or 'no shape'} of what is said: {line}"
    return shapes[0]


ERROR: Final = re.compile(r"\[ROCKETMQ_(?P<condition>[A-Z_.]+)\] ")
_RAISED: Final = re.compile(rf"rocketmq_spark\.errors\.\w+: {ERROR.pattern}")
"""What stands at the end of a stack: an error alone on its line."""


def outdated_conditions(line: str) -> list[str]:
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
