"""Writes the parts of the documentation that the code has as tables: options, errors, columns, decisions.

python tools/generate_docs.py            write what is stale
python tools/generate_docs.py --check    write nothing, name what is stale, exit 1 if anything is
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from built_pages import write_built
from kafka_parity import parity_page
from markdown_table import table
from mutation_page import mutation_scores
from options_page import GENERATED, default_of, options_page, required
from sparks_table import sparks_table
from state_diagram import drain_diagram, queue_life_diagram, server_choice_diagram, standing_diagram

from rocketmq_spark.conditions import CONDITIONS
from rocketmq_spark.consumer import membership_state
from rocketmq_spark.inspection.views import VIEWS
from rocketmq_spark.metrics.metric_table import METRICS, PREFIX, Mode
from rocketmq_spark.model import RESERVED_PROPERTIES
from rocketmq_spark.options import ReadOptions, WriteOptions
from rocketmq_spark.options.table import Option, Section, rows
from rocketmq_spark.pull.pull_request import BY_OFFSETS, BY_REASON, BY_STATUS
from rocketmq_spark.remoting.retry import RETRYABILITY, OperationRetryability, Retryability
from rocketmq_spark.sink.columns import SINK_COLUMNS
from rocketmq_spark.source.schema import spark_type
from rocketmq_spark.source.stream.checkpoint_changes import CHANGES
from rocketmq_spark.wire.arrow.column_table import COLUMNS, DEFAULT_COLUMNS, PROPERTIES, RECEIVED_COLUMNS, Column
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode, code_name
from rocketmq_spark.wire.remoting.meanings import MEANINGS

COMMENT_WIDTH: Final = 100
READ_OPTIONS: Final = tuple(row for _, row in rows(ReadOptions))


def main() -> int:
    """Write, or check, every page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, only say what is stale")
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent, help="of the project")
    arguments = parser.parse_args()
    stale = dict(stale_pages(arguments.root))
    for name, text in stale.items():
        print(f"{name} is stale; 'make docs' writes it" if arguments.check else f"wrote {name}")
        if not arguments.check:
            (arguments.root / name).parent.mkdir(parents=True, exist_ok=True)
            (arguments.root / name).write_text(text, encoding="utf-8")
    if not arguments.check:
        write_built(arguments.root)
    return 1 if stale and arguments.check else 0


def stale_pages(root: Path) -> Iterator[tuple[str, str]]:
    """Name and right text of each page that has another text now."""
    for name, written in PAGES.items():
        file = root / name
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if written(text) != text:
            yield name, written(text)


# ---------------------------------------------------------------------------------------------------- pages


def errors_page(_: str) -> str:
    """docs/reference/errors.md."""
    head = (
        f"# Errors\n\n{GENERATED}\n\n"
        "Every error of the connector begins with its condition, as in `[ROCKETMQ_TOPIC_NOT_FOUND]`; search this page\n"
        "for it. A part behind a dot is a sub-condition: alert on `ROCKETMQ_TOPIC_UNAVAILABLE` for all of its kind.\n"
        "Each section has the message, with parameters in braces, and what to do. The connector retries conditions\n"
        "with a line *Retries* before it raises them, see [Retries](#retries).\n"
    )
    sections = (
        f"## {name}\n\n{template(row.what)}\n\n**What to do:** {template(row.advice)}\n"
        + outlooks_of(RETRYABILITY.get(name))
        for name, row in CONDITIONS.items()
    )
    return "\n".join((head, *sections, retry_section(), meanings_section()))


def template(text: str) -> str:
    """One text of a condition without Python's formats: a counted noun is in the plural."""
    return re.sub(r"\{(\w+):([\w ]+)\}", r"{\1} \2s", re.sub(":(lines|cut)}", "}", text))


def outlooks_of(outlooks: OperationRetryability | None) -> str:
    """A line below a condition that is retried."""
    if outlooks is None:
        return ""
    by_class = {it: ", ".join(key for key, one in outlooks._asdict().items() if one is it) for it in Retryability}
    return f"\n*[Retries](#retries):* {'; '.join(f'{word(it)} for {of}' for it, of in by_class.items() if of)}.\n"


def word(cell: object) -> str:
    """Of one cell of the table of outlooks."""
    return cell.name.lower() if isinstance(cell, Retryability) else "yes" if cell else "no"


def retry_section() -> str:
    """Of errors.md: the whole table of what may be tried again."""
    head = (
        "## Retries\n\n"
        "By operation: a request to a server, a pull of a planned range, a send whose next attempt goes to another\n"
        "queue, or a write of rows. Options [limit the time](options.md#outages-and-data-loss). With `refresh`, an\n"
        "executor or a sender refreshes the route before its next attempt; members refresh routes by a timer. Numbers\n"
        "are the ResponseCodes of BROKER_ERROR. Conditions that are not in this table are not retried.\n"
    )
    meanings = "".join(f"- {word(outlook)}: {outlook.value}\n" for outlook in Retryability)
    lines = ((subject(key), *map(word, outlooks)) for key, outlooks in RETRYABILITY.items())
    return f"{head}\n{meanings}\n{table(('failure', *OperationRetryability._fields), lines)}"


def meanings_section() -> str:
    """Of errors.md: the whole table of the codes that requests accept."""
    head = (
        "## Accepted response codes\n\n"
        "By request, the response codes that are no error, and the start of the remark where it is significant. Every\n"
        "other code raises BROKER_ERROR; a request that is not in this table accepts SUCCESS only.\n"
    )
    lines = (
        (code_name(RequestCode, request), f"{code_name(ResponseCode, code)} ({int(code)})", remark, meaning.value)
        for request, meanings in MEANINGS.items()
        for (code, remark), meaning in meanings.items()
    )
    return f"{head}\n{table(('request', 'code', 'remark', 'which means'), lines)}"


def subject(failure: int | str) -> str:
    """Of one row of the table of outlooks."""
    return f"{code_name(ResponseCode, failure)} ({int(failure)})" if isinstance(failure, int) else failure


def columns_page(_: str) -> str:
    """docs/reference/columns.md."""
    head = (
        f"# Columns\n\n{GENERATED}\n\n"
        "Each message is one row. Without a user-specified schema, a reader returns the default columns. A schema can\n"
        "name any of the columns, in any order and in any case. `includeProperties` adds the map `properties`;\n"
        "`propertyColumns` adds columns of single properties.\n"
    )
    lines = (
        (f"`{name}`", type_of(name), is_default(name), row.doc, row.null_when or "never")
        for name, row in COLUMNS.items()
    )
    columns = table(("column", "type", "default", "meaning", "null if"), lines)
    return f"{head}\n{columns}\n{received_columns()}\n{written_columns()}\n{view_columns()}"


def received_columns() -> str:
    """Return the section of columns.md on message-based load balancing."""
    head = (
        "## Columns with message-based load balancing\n\n"
        "With `loadBalance=message` a schema can name one more column. With `endpoints` (gRPC) some of the columns\n"
        "above are null: see [Message mode](../message-mode.md#through-a-proxy).\n"
    )
    lines = ((f"`{name}`", row.doc) for name, row in RECEIVED_COLUMNS.items())
    return f"{head}\n{table(('column, `STRING`', 'meaning'), lines)}"


def written_columns() -> str:
    """Return the section of columns.md on the sink."""
    head = (
        "## Columns of the sink\n\n"
        "Rows need a `body`, and can have any of the other columns, in any order and in any case. If a value is null,\n"
        "the message does not have it.\n"
    )
    lines = (
        (" or ".join(f"`{one}`" for one in (name, row.alias) if one), " or ".join(map(str.upper, row.types)), row.doc)
        for name, row in SINK_COLUMNS.items()
    )
    reserved = ", ".join(f"`{name}`" for name in sorted(RESERVED_PROPERTIES))
    names = f"Property names that RocketMQ reserves, and that `properties` must not contain: {reserved}."
    return f"{head}\n{table(('column', 'type', 'meaning'), lines)}\n{textwrap.fill(names, 120, break_on_hyphens=False)}"


def view_columns() -> str:
    """Return the sections of columns.md on views."""
    head = (
        "## Columns of views\n\n"
        '`spark.read.option("view", ...)` has these columns in place of those above: see [Where is my\n'
        "lag?](../monitoring.md#where-is-my-lag). A schema can name any of them, in any order and in any case.\n"
    )
    views = (
        f"### {view}\n\n" + table(("column", "type", "meaning", "null if"), map(view_column, columns.items()))
        for view, columns in VIEWS.items()
    )
    return "\n".join((head, *views))


def view_column(named: tuple[str, Column]) -> tuple[str, ...]:
    """One line of a view."""
    name, column = named
    return f"`{name}`", spark_type(column).simpleString().upper(), column.doc, column.null_when or "never"


def with_tables(text: str) -> str:
    """Return a page with new tables between each two markers."""
    current, count = MARKED.subn(lambda block: f"{block['begin']}{TABLES[block['name']]()}{block['end']}", text)
    if count != text.count(": written by tools/generate_docs.py -->"):
        raise SystemExit(f"a page begins a generated table and does not end it: {text.splitlines()[0]}")
    return current


def checkpoint_changes_table() -> str:
    """For docs/offsets.md: what becomes of a checkpoint whose query has other options, and what each change loses."""
    rows_of_changes = table(
        ("change", "option", "is"), ((one.what, f"`{one.option}`", one.outcome.value) for one in CHANGES)
    )
    losses = (
        textwrap.fill(
            f"* {one.what[0].upper()}{one.what[1:]}: {one.loses}", 120, subsequent_indent="  ", break_on_hyphens=False
        )
        for one in CHANGES
    )
    return "\n".join((rows_of_changes, "What each change loses:", "", *losses, ""))


def options_table() -> str:
    """For docs/reading.md: the ones to begin with, first those that are required."""
    return table(
        ("option", "default", "meaning"),
        (
            (spelling(option), required(option) if option.required else default_of(option), option.doc)
            for option in sorted(READ_OPTIONS, key=lambda option: not option.required)
            if option.essential
        ),
    )


def write_options_table() -> str:
    """For docs/writing.md: the options of a write alone."""
    lines = (
        (spelling(option), option.kind.expected, default_of(option), option.doc)
        for _, option in rows(WriteOptions)
        if option.section is Section.WRITE
    )
    return table(("option", "value", "default", "meaning"), lines)


def spelling(option: Option) -> str:
    """Name and aliases."""
    return " or ".join(f"`{name}`" for name in option.spellings)


def type_of(column: str) -> str:
    """Spark's, in SQL's spelling."""
    return f"`{spark_type(COLUMNS[column]).simpleString().upper()}`"


def is_default(column: str) -> str:
    """For a table."""
    if column == PROPERTIES:
        return "with `includeProperties`"
    return "yes" if column in DEFAULT_COLUMNS else ""


def pull_actions_table() -> str:
    """For docs/dev/pulling.md: by status and reason, then what ``pull_action`` decides over that."""
    lines = []
    for status, action in BY_STATUS.items():
        reasons = {f"`{reason}`": by_reason for (of, reason), by_reason in BY_REASON.items() if of is status}
        lines += [(status.name, reason, by.name, by.value) for reason, by in {**reasons, "any other": action}.items()]
    return table(("status", "reason", "action", "which means"), lines)


def pull_offsets_table() -> str:
    """For docs/dev/pulling.md: what the offsets of a response override."""
    lines = (
        (by.name, "yes" if is_later else "no", "yes" if is_deleted else "no", action.name)
        for (by, is_later, is_deleted), action in BY_OFFSETS.items()
    )
    return table(
        ("action", "`nextBeginOffset` above the requested one", "min offset above the requested one", "instead"), lines
    )


def standing_table() -> str:
    """For docs/dev/group-members.md: all effects of the reports that a member receives."""
    lines = (
        (
            before.name,
            reported.name,
            step.action.value,
            *waited_for(step.problem),
            ", ".join(step.resolved or step.unknown),
        )
        for (before, reported), step in membership_state.MEMBERSHIP_TRANSITIONS.items()
    )
    return table(("state", "event", "action", "waits for", "at most", "no longer waits for"), lines)


def waited_for(problem: membership_state.MembershipProblem | None) -> tuple[str, str]:
    """What, and how long."""
    return ("", "") if problem is None else (problem.subject, problem.limit.value)


def metrics_table() -> str:
    """For docs/prometheus.md."""
    lines = (
        (
            f"`{PREFIX}{name}`",
            row.metric_type.value,
            row.unit,
            "" if row.mode is Mode.BOTH else row.mode.value,
            f"`{row.field}`",
            row.doc,
        )
        for name, row in METRICS.items()
    )
    return table(("metric", "type", "unit", "mode", "progress field", "meaning"), lines)


def options_example(_: str) -> str:
    """conf/connector.options.example."""
    head = (
        "# Options of the connector, one 'name=value' a line: copy it, and give the required ones a value.\n"
        "# examples/04_spark_submit_job.py reads such a file. Written by tools/generate_docs.py.\n"
    )
    return "\n".join((head, *map(example_section, dict.fromkeys(row.section for row in READ_OPTIONS))))


def example_section(section: Section) -> str:
    """A heading, and the section's options of a streaming read."""
    return "\n".join(
        (f"# ---- {section.value}\n", *(example_lines(row) for row in READ_OPTIONS if row.section is section))
    )


def example_lines(option: Option) -> str:
    """One option, commented out unless it is required."""
    doc = fill(option.doc.replace("`", ""), COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ")
    setting = f"{option.name}=" if option.required else f"#{option.name}={option.default or ''}"
    return f"{doc}\n# Value: {option.kind.expected}.\n{setting}\n"


TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "options": options_table,
    "write_options": write_options_table,
    "pull_actions": pull_actions_table,
    "pull_offsets": pull_offsets_table,
    "server_choice": server_choice_diagram,
    "queue_states": queue_life_diagram,
    "standing": standing_diagram,
    "standing_steps": standing_table,
    "drain": drain_diagram,
    "checkpoint_changes": checkpoint_changes_table,
    "sparks": sparks_table,
    "metrics": metrics_table,
    "mutation_scores": mutation_scores,
}
MARKED: Final = re.compile(
    r"(?P<begin><!-- (?P<name>\w+): written by tools/generate_docs\.py -->\n).*?(?P<end><!-- end of (?P=name) -->)",
    re.DOTALL,
)

PAGES_OF_USERS: Final = ("reading", "writing", "offsets", "compatibility", "prometheus")
PAGES_OF_DESIGN: Final = ("tests", "orderly", "group-members", "processes-threads-locks", "pulling")
PAGES: Final[Mapping[str, Callable[[str], str]]] = {
    "docs/reference/options.md": options_page,
    "docs/reference/errors.md": errors_page,
    "docs/reference/columns.md": columns_page,
    "docs/dev/kafka-parity.md": parity_page,
    **dict.fromkeys((f"docs/dev/{page}.md" for page in PAGES_OF_DESIGN), with_tables),
    **dict.fromkeys((f"docs/{page}.md" for page in PAGES_OF_USERS), with_tables),
    "conf/connector.options.example": options_example,
}

if __name__ == "__main__":
    sys.exit(main())
