"""Writes the parts of the documentation that tables in the code know better: options, errors, columns.

python tools/generate_docs.py            write what is stale
python tools/generate_docs.py --check    write nothing, name what is stale, exit 1 if anything is
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from rocketmq_spark.errors import CONDITIONS
from rocketmq_spark.options import Option, ReadOptions, rows
from rocketmq_spark.remoting.retry import OUTLOOKS, Outlook
from rocketmq_spark.source.schema import spark_type
from rocketmq_spark.wire.arrow.column_table import COLUMNS, DEFAULT_COLUMNS

GENERATED: Final = "<!-- Written by tools/generate_docs.py. -->"
COMMENT_WIDTH: Final = 100
OPTIONS: Final = [option for _, option in rows(ReadOptions)]


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
            (arguments.root / name).parent.mkdir(exist_ok=True)
            (arguments.root / name).write_text(text, encoding="utf-8")
    return 1 if stale and arguments.check else 0


def stale_pages(root: Path) -> Iterator[tuple[str, str]]:
    """Name and right text of each page that has another text now."""
    for name, written in PAGES.items():
        file = root / name
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if written(text) != text:
            yield name, written(text)


# ---------------------------------------------------------------------------------------------------- pages


def options_page(_: str) -> str:
    """docs/options.md."""
    sections = (f"## {option.name}\n\n{sentences(option)}" for option in OPTIONS)
    head = f'# Options\n\n{GENERATED}\n\nOf `spark.readStream.format("rocketmq")`. Names are not case-sensitive.\n'
    return "\n".join((head, *sections))


def sentences(option: Option) -> str:
    """All that the table says of one option."""
    facts = [f"- value: {option.kind.expected}"]
    facts += ["- required"] if option.required else [f"- default: {default_of(option)}"]
    facts += [f"- other name: `{alias}`" for alias in option.aliases]
    return f"{option.doc}\n\n" + "\n".join(facts) + "\n"


def errors_page(_: str) -> str:
    """docs/errors.md."""
    head = (
        f"# Errors\n\n{GENERATED}\n\n"
        "Every error of the connector begins with its condition, `[ROCKETMQ_...]`, then says what happened and what\n"
        "to do about it. Words in braces are filled in. What is marked as passing is tried again before it is raised.\n"
    )
    sections = (
        f"## {name}\n\n{row.what}\n\n{row.advice}\n" + ("\nPassing.\n" if passes(name) else "")
        for name, row in CONDITIONS.items()
    )
    return "\n".join((head, *sections))


def passes(condition: str) -> bool:
    """Whether another attempt may help."""
    return condition in OUTLOOKS and OUTLOOKS[condition].request is Outlook.PASSES


def readme(text: str) -> str:
    """README.md with its tables renewed."""
    tables = {"options": options_table(), "columns": columns_table()}
    for name, table in tables.items():
        text = between_markers(text, name, table)
    return text


def between_markers(text: str, name: str, table: str) -> str:
    """``text`` with ``table`` in the place marked with ``name``."""
    begin, end = f"<!-- {name}: written by tools/generate_docs.py -->\n", f"<!-- end of {name} -->"
    head, found, rest = text.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not found or not found_end:
        raise SystemExit(f"README.md lacks the markers of {name}")
    return f"{head}{begin}{table}{end}{tail}"


def options_table() -> str:
    """For README.md."""
    return table(
        ("option", "default", "meaning"),
        ((spelling(option), "required" if option.required else default_of(option), option.doc) for option in OPTIONS),
    )


def spelling(option: Option) -> str:
    """Name and aliases."""
    return " or ".join(f"`{name}`" for name in option.spellings)


def default_of(option: Option) -> str:
    """As code, or the word 'none'."""
    return "none" if option.default is None else f"`{option.default}`"


def columns_table() -> str:
    """For README.md."""
    return table(
        ("column", "type", "by default", "meaning"),
        (
            (
                f"`{name}`",
                f"`{spark_type(name).simpleString().upper()}`",
                "yes" if name in DEFAULT_COLUMNS else "",
                row.doc,
            )
            for name, row in COLUMNS.items()
        ),
    )


def table(header: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    """In Markdown."""
    cells = [header, ("---",) * len(header), *lines]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in cells)


def options_example(_: str) -> str:
    """conf/connector.options.example."""
    head = (
        "# Options of the connector, one 'name=value' a line: copy it, and give the required ones a value.\n"
        "# examples/04_spark_submit_job.py reads such a file. Written by tools/generate_docs.py.\n"
    )
    return "\n".join((head, *map(example_lines, OPTIONS)))


def example_lines(option: Option) -> str:
    """One option, commented out unless it is required."""
    doc = fill(option.doc.replace("`", ""), COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ")
    setting = f"{option.name}=" if option.required else f"#{option.name}={option.default or ''}"
    return f"{doc}\n# Value: {option.kind.expected}.\n{setting}\n"


PAGES: Final[Mapping[str, Callable[[str], str]]] = {
    "docs/options.md": options_page,
    "docs/errors.md": errors_page,
    "README.md": readme,
    "conf/connector.options.example": options_example,
}

if __name__ == "__main__":
    sys.exit(main())
