"""The table of options. A row is the metadata of a dataclass field: name, kind, default, description.

The dataclass of a field determines the calls that accept the option (``USES`` in the package); the row determines its
section in the documentation. The reference, the table of ``docs/reading.md``, ``conf/connector.options.example`` and
the texts of OptionErrors are generated from the rows.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Any, Final, TypeVar

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options.foreign_names import hint_for
from rocketmq_spark.options.kinds import Kind
from rocketmq_spark.options.times import TimeWithoutZoneError

T = TypeVar("T")

ACCEPTED_BY: Final[dict[type, tuple[str, ...]]] = {}
"""By table of options: the calls that accept its options. Filled by ``accepted_by``."""

SIMILARITY: Final = 0.8
"""Minimum similarity of an unknown name to an option that is suggested, as ``difflib`` measures it."""


class Section(Enum):
    """Sections of the reference, in its order."""

    CONNECTION = "Connection"
    SECURITY = "Credentials and TLS"
    GROUP = "Consumer group"
    SUBSCRIPTION = "Topics and columns"
    START = "Start position"
    SIZE = "Micro-batch size"
    DATA_LOSS = "Outages and data loss"
    WRITE = "Writing"
    LOG = "Logging"


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table of options: how an option of a Spark call is named, parsed and documented.

    ``essential``: one of the ten in ``docs/reading.md``. ``section``: of the reference. ``alternatives``: options of
    which one may be set instead of this required one, whose value is then (). ``unset``: for the documentation, the
    effect if the option is not set and has no ``default``.
    """

    name: str
    kind: Kind[Any]
    doc: str
    section: Section
    essential: bool = False
    aliases: tuple[str, ...] = ()
    default: str | None = None
    required: bool = False
    secret: bool = False
    alternatives: tuple[str, ...] = ()
    unset: str = "none"

    @property
    def spellings(self) -> tuple[str, ...]:
        """Return the name, then the aliases."""
        return (self.name, *self.aliases)

    @property
    def expected_or_alternatives(self) -> str:
        """Return the accepted values, and the options that may be set instead, for the error of a missing option."""
        instead = " or ".join(f"'{name}'" for name in self.alternatives)
        return f"{self.kind.expected}, or set {instead} instead" if instead else self.kind.expected

    def parse(self, text: str) -> Any:
        """Strip ``text`` and return the value that the kind parses. Raises OptionError[INVALID_OPTION_VALUE], which
        shows "***" for a secret, or OptionError[TIME_WITHOUT_ZONE], both without a cause, which could contain a
        secret."""
        has_no_zone = False
        try:
            return self.kind.parse(text.strip())
        except ValueError as problem:
            has_no_zone = isinstance(problem, TimeWithoutZoneError)
        if has_no_zone:
            raise OptionError("TIME_WITHOUT_ZONE", option=self.name, value=text.strip())
        shown = "***" if self.secret else text
        raise OptionError("INVALID_OPTION_VALUE", option=self.name, value=shown, expected=self.kind.expected)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two options whose values exclude each other if ``when`` returns true; ``explanation`` is the reason."""

    first: str
    second: str
    when: Callable[[Any], bool]
    explanation: str

    def check(self, options: object) -> None:
        """Raise OptionError[INCOMPATIBLE_OPTIONS] if the options conflict."""
        if self.when(options):
            raise OptionError("INCOMPATIBLE_OPTIONS", first=self.first, second=self.second, reason=self.explanation)


@dataclass(frozen=True, slots=True)
class Dependency:
    """An option that requires another one if ``when`` returns true; ``explanation`` is the reason."""

    option: str
    required_option: str
    when: Callable[[Any], bool]
    explanation: str

    def check(self, options: object) -> None:
        """Raise OptionError[OPTION_REQUIRES_OPTION] if the dependency is not met."""
        if self.when(options):
            raise OptionError(
                "OPTION_REQUIRES_OPTION", option=self.option, needed=self.required_option, reason=self.explanation
            )


def option(
    name: str,
    kind: Kind[T],
    *,
    section: Section,
    doc: str,
    essential: bool = False,
    aliases: tuple[str, ...] = (),
    default: str | None = None,
    required: bool = False,
    secret: bool = False,
    alternatives: tuple[str, ...] = (),
    unset: str = "none",
) -> Any:
    """Return a dataclass field whose metadata is the option's row of the table. Parse ``default`` once: raises
    OptionError[INVALID_OPTION_VALUE | TIME_WITHOUT_ZONE] for an invalid default. Secrets are not in the repr."""
    row = Option(name, kind, doc, section, essential, aliases, default, required, secret, alternatives, unset)
    if default is not None:
        row.parse(default)
    return dataclasses.field(metadata={"option": row}, repr=not secret)


def row_of(table: type, option_name: str, /, **changes: Any) -> Any:
    """Return a dataclass field for option ``option_name``. Its row is a copy of the row in ``table``, another dataclass
    of options, with ``changes`` of the row's fields, which are not checked. Raises ValueError if ``table`` does not
    have the option."""
    (row,) = (row for _, row in rows(table) if row.name == option_name)
    return dataclasses.field(metadata={"option": dataclasses.replace(row, **changes)}, repr=not row.secret)


def accepted_by(*calls: str) -> Callable[[type[T]], type[T]]:
    """Return a class decorator that registers ``calls`` as the calls that accept the options of a table
    (``ACCEPTED_BY``), for ``USES`` and for errors. It returns the class unchanged."""

    def register(table: type[T]) -> type[T]:
        """Register ``calls`` for ``table``, and return it unchanged."""
        ACCEPTED_BY[table] = calls
        return table

    return register


def rows(table: type) -> Iterator[tuple[str, Option]]:
    """Yield (attribute, row) for every field of ``table``, in order of definition; each must have a row."""
    for attribute in dataclasses.fields(table):
        yield attribute.name, attribute.metadata["option"]


def parse_table(table: type, configured: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the options in ``configured`` by attribute of ``table``, for all its options; names in any
    case. Values that are no text count as Spark's ``options`` converts them, and None as not set. An option that is not
    set has its parsed default, or None, or () if one of its alternatives is set instead.

    Raises OptionError[UNKNOWN_OPTION | MISSING_OPTION | INVALID_OPTION_VALUE | TIME_WITHOUT_ZONE |
    INCOMPATIBLE_OPTIONS].
    """
    for name in unknown_names(table, configured):
        raise OptionError("UNKNOWN_OPTION", option=name, suggestion=_suggestion(name, _spellings_by_lower_case(table)))
    remaining = _in_lower_case({name: _text_of(name, value) for name, value in configured.items() if value is not None})
    values: dict[str, Any] = {}
    for attribute, row in rows(table):
        values[attribute] = () if _is_replaced(row, remaining) else _value(row, _pop_text(row, remaining))
    return values


def unknown_names(table: type, configured: Iterable[str]) -> list[str]:
    """Return, unchanged, the names of ``configured`` that no option of ``table`` has in any case."""
    known = _spellings_by_lower_case(table)
    return [name for name in configured if name.lower() not in known]


def _spellings_by_lower_case(table: type) -> dict[str, str]:
    """Return the names and aliases of all options of ``table``, by themselves in lower case."""
    return {spelling.lower(): spelling for _, row in rows(table) for spelling in row.spellings}


def _text_of(name: str, value: object) -> str:
    """Return the text that Spark's ``options`` makes of ``value``: "true" or "false" for a boolean. Raises
    OptionError[INVALID_OPTION_VALUE] for a value that is no text, number or boolean."""
    if not isinstance(value, str | bool | int | float):
        expected = "text, a number or a boolean"
        raise OptionError("INVALID_OPTION_VALUE", option=name, value=type(value).__name__, expected=expected)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _in_lower_case(configured: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of ``configured`` with names in lower case. Raises OptionError[INCOMPATIBLE_OPTIONS] if names that
    differ in case only have different values."""
    first_spellings: dict[str, str] = {}
    for name, text in configured.items():
        first = first_spellings.setdefault(name.lower(), name)
        if configured[first] != text:
            reason = "They are two spellings of one option and have different values."
            raise OptionError("INCOMPATIBLE_OPTIONS", first=first, second=name, reason=reason)
    return {lower: configured[name] for lower, name in first_spellings.items()}


def checked(options: T, *rules: Iterable[Conflict | Dependency]) -> T:
    """Check ``options`` by the rules in order, and return them unchanged. Raises OptionError[INCOMPATIBLE_OPTIONS |
    OPTION_REQUIRES_OPTION] for the first violated rule."""
    for rule in chain.from_iterable(rules):
        rule.check(options)
    return options


def _is_replaced(row: Option, remaining: Mapping[str, str]) -> bool:
    """Return whether one of the row's ``alternatives`` is set and the row's own option is not."""
    is_set = any(spelling.lower() in remaining for spelling in row.spellings)
    return not is_set and any(name.lower() in remaining for name in row.alternatives)


def _value(row: Option, text: str | None) -> Any:
    """Return the value of ``text`` by ``Option.parse``, whose errors it raises, or None for None."""
    return None if text is None else row.parse(text)


def _pop_text(row: Option, remaining: dict[str, str]) -> str | None:
    """Remove the row's option from ``remaining``, whose names are in lower case, under each of its spellings. Return
    its text, or without one the default, which may be None. Raises OptionError[INCOMPATIBLE_OPTIONS] for two spellings
    with different texts, OptionError[MISSING_OPTION] for a required option without text."""
    found = [(spelling, remaining.pop(spelling.lower())) for spelling in row.spellings if spelling.lower() in remaining]
    if len(found) > 1 and found[0][1] != found[1][1]:
        reason = "They are two names of one option and have different values."
        raise OptionError("INCOMPATIBLE_OPTIONS", first=found[0][0], second=found[1][0], reason=reason)
    if found:
        return found[0][1]
    if row.required:
        raise OptionError("MISSING_OPTION", option=row.name, expected=row.expected_or_alternatives)
    return row.default


def _suggestion(name: str, spellings_by_lower_case: Mapping[str, str]) -> str:
    """Return the advice for an unknown option name, the first that applies. It is its hint (``hint_for``), the calls
    that accept the option, the most similar option of this call, or that no option has a similar name.
    ``spellings_by_lower_case``: the call's options, by name in lower case."""
    elsewhere: dict[str, tuple[str, list[str]]] = {}
    for other, calls in ACCEPTED_BY.items():
        for spelling in (spelling for _, row in rows(other) for spelling in row.spellings):
            elsewhere.setdefault(spelling.lower(), (spelling, []))[1].extend(calls)
    hint = hint_for(name, spellings_by_lower_case, {lower: _joined(them) for lower, (_, them) in elsewhere.items()})
    if hint is not None:
        return hint
    if name.lower() in elsewhere:
        spelling, accepting = elsewhere[name.lower()]
        return f"{spelling!r} is an option of {_joined(accepting)}, and not of this call."
    nearest = difflib.get_close_matches(name.lower(), spellings_by_lower_case, n=1, cutoff=SIMILARITY)
    return f"Did you mean {spellings_by_lower_case[nearest[0]]!r}?" if nearest else "No option has a similar name."


def _joined(calls: Sequence[str]) -> str:
    """Return ``calls``, at least one, as a list in a sentence: a, b and c."""
    *first, last = calls
    return f"{', '.join(first)} and {last}" if first else last
