"""Words that are not those of the field, in one place, by where they are refused, and what to write instead.

The source is the project's glossary. ``architecture/test_words.py`` holds names and texts of the repository to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from enum import StrEnum, auto
from typing import Final


class Place(StrEnum):
    """Where a phrase may be refused. Names of the code have lists of their own, ``WORDS`` and ``SEQUENCES``."""

    MAINTAINERS_PAGE = auto()
    USERS_PAGE = auto()
    OPTION = auto()
    CONDITION = auto()
    MESSAGE = auto()
    """A log line, or a part of one or of an error, such as a cause."""
    DOCSTRING = auto()
    """A docstring or comment of the package or of ``tools``."""


EVERYWHERE: Final = frozenset(Place)
FOR_USERS: Final = EVERYWHERE - {Place.MAINTAINERS_PAGE, Place.DOCSTRING}
IN_MESSAGES: Final = frozenset({Place.CONDITION, Place.MESSAGE})
"""Texts that appear alone, at night: an error or a line of the log."""
IN_CODE: Final = IN_MESSAGES | {Place.DOCSTRING}

WORDS: Final = {
    "anew": "again, re-created",
    "answer": "response, future",
    "answered": "acknowledged, responded",
    "answers": "responses",
    "anybody": "the actor",
    "ask": "call, send, request",
    "asked": "requested",
    "asks": "calls, requests",
    "away": "unavailable: not in the route",
    "bad": "invalid, undecodable",
    "believe": "assume, verify",
    "believed": "assumed",
    "believes": "assumes",
    "disown": "abandon",
    "disowned": "abandoned",
    "door": "entry point, port",
    "doors": "entry points, ports",
    "errand": "task of the ack scheduler",
    "errands": "ack scheduler",
    "everybody": "the actor",
    "excuse": "extend the retry deadline",
    "excused": "extended",
    "findings": "queue facts",
    "freeze": "start a batch",
    "frozen": "in flight, in batch n",
    "gathered": "collected",
    "gone": "deleted, removed",
    "hear": "receive",
    "heard": "received",
    "hears": "receives",
    "incarnation": "queue identity, assignment generation",
    "keeper": "offset store",
    "know": "cache, resolve",
    "knows": "has",
    "ledger": "in-flight messages",
    "life": "queue identity, assignment generation",
    "lives": "queue identities",
    "look": "probe, lookup",
    "looked": "probed",
    "looker": "prober",
    "looks": "probes, lookup",
    "manner": "consumer settings",
    "manners": "consumer settings",
    "namesake": "duplicate client ID",
    "newcomer": "joining member",
    "news": "change",
    "nobody": "the actor",
    "others": "other members, other queues",
    "outlook": "retryability",
    "patience": "retry deadline, timeout",
    "peer": "remoting client",
    "peers": "remoting clients",
    "promised": "expected",
    "proof": "completion",
    "proofs": "completions",
    "prove": "mark completed",
    "proved": "completed",
    "proven": "completed",
    "question": "request, RPC",
    "questions": "requests",
    "renew": "extend",
    "renewed": "extended",
    "room": "capacity, package",
    "rooms": "packages",
    "said": "logged, reported",
    "say": "log, report",
    "says": "logs, reports",
    "settle": "resolve positions, complete",
    "settled": "resolved, completed",
    "settlement": "position resolution",
    "silence": "timeout",
    "silent": "unresponsive: timed out",
    "somebody": "the actor",
    "speak": "log, set the log context",
    "speaks": "logs",
    "spent": "retries exhausted",
    "standing": "membership state",
    "stories": "end-to-end tests",
    "story": "end-to-end test",
    "survey": "metadata refresh, snapshot",
    "surveyed": "refreshed",
    "surveys": "refreshes",
    "taken": "acquired, accepted, claimed",
    "tell": "report, log, send",
    "tells": "reports",
    "told": "reported, logged",
    "trouble": "failure",
    "troubles": "failures",
    "turn": "group lock, round robin",
    "turns": "round robin",
    "twin": "native implementation",
    "wanted": "target, required",
    "who": "the actor",
    "whoever": "the actor",
    "whose": "the actor",
    "wish": "requirement",
    "wishes": "requirements",
}
"""Words that no identifier has, and the words to use."""

SEQUENCES: Final = {
    "come_again": "redelivered",
    "comes_again": "redelivered",
    "give_back": "release",
    "give_up": "skip ranges, retries exhausted",
    "given_back": "released",
    "given_up": "skipped, retries exhausted",
    "go_on": "resume",
    "goes_on": "resumes",
    "hand_out": "deliver",
    "hand_over": "release queues",
    "handed_out": "delivered",
    "handed_over": "released",
    "left_out": "missing",
    "put_back": "restore",
}
"""Neighbouring words that no identifier has, and the words to use."""

PHRASES: Final = {
    # ---- everywhere
    r"any(?:body|one)": ("name the actor: a member, a client, you", EVERYWHERE),
    r"every(?:body|one)": ("name the actors: all members, all clients", EVERYWHERE),
    r"no(?:body| one)": ("name the actor: no broker, no member", EVERYWHERE),
    r"some(?:body|one)": ("name the actor: a member, an operator", EVERYWHERE),
    r"who(?:m|se)?ever": ("name the actor", EVERYWHERE),
    r"asks": ("sends a request, calls", EVERYWHERE),
    r"(?:is|are|was|were|be|been) asked": ("receives a request", EVERYWHERE),
    r"believes?": ("assumes", EVERYWHERE),
    r"hears?": ("receives", EVERYWHERE),
    r"knows": ("has, lists, caches", EVERYWHERE),
    r"looks": ("checks, probes, searches", EVERYWHERE),
    r"says?": ("returns, reports, logs", EVERYWHERE),
    r"speaks?": ("uses, supports, sends", EVERYWHERE),
    r"tells?": ("returns, reports", EVERYWHERE),
    r"(?:is|are|was|were|be|been) told": ("is notified, receives", EVERYWHERE),
    r"anew": ("again, re-created", EVERYWHERE),
    r"(?:comes?|came|coming) again": ("is redelivered", EVERYWHERE),
    r"(?:goes|go|went|going) on(?= at| from| with|[.,;:)])": ("resumes, continues", EVERYWHERE),
    r"(?:gives?|gave|given|giving) (?:it |them )?back": ("releases", EVERYWHERE),
    r"(?:hands?|handed|handing) (?:it |them )?out": ("delivers", EVERYWHERE),
    r"(?:hands?|handed|handing) (?:it |them )?over": ("releases, passes", EVERYWHERE),
    r"in vain": ("without success", EVERYWHERE),
    r"(?:is|are|was|were|be|been) taken": ("is accepted, is acknowledged, is used", EVERYWHERE),
    r"so (?:many|much|often|long as it takes)": ("at most N, a number and its unit", EVERYWHERE),
    r"dead letter (?:queue|topic)": ("dead-letter topic (DLQ)", EVERYWHERE),
    r"bad messages?": ("undecodable message", EVERYWHERE),
    r"(?:makes?|made|making) anew": ("re-creates", EVERYWHERE),
    # ---- in what users read
    r"said|told|heard": ("reports, logs, receives", FOR_USERS),
    r"ask(?:ed)?": ("request, call", FOR_USERS),
    r"tell": ("report", FOR_USERS),
    r"looks? at": ("check, probe", FOR_USERS),
    r"is away": ("is unavailable", FOR_USERS),
    # ---- in errors and lines of the log
    r"know": ("have, list", IN_MESSAGES),
    r"hear|believe": ("receive, assume", IN_MESSAGES),
    r"look": ("check, probe", IN_MESSAGES),
    r"answers?": ("response, responds", IN_MESSAGES),
    r"goes? on": ("resumes, continues", IN_MESSAGES),
    r"away": ("unavailable", IN_MESSAGES),
    r"come again": ("are redelivered", IN_MESSAGES),
    r"hands? out": ("delivers", IN_MESSAGES),
    r"gives? (?:up|back)": ("skips, releases", IN_MESSAGES),
    # ---- in messages, docstrings and comments; these have ``WORDS`` beside
    r"takes(?! (?:effect|precedence|about|at most|as few as|longer|some|\d))": ("needs, accepts, uses", IN_CODE),
    # ---- in conditions
    r"yet": ("name the state and its time limit", frozenset({Place.CONDITION})),
}
"""Patterns that a text must not have, in any case and across line ends; what to write, and where it is refused."""


IN_SENTENCES: Final = {
    "frozen": "a frozen dataclass",
    "look": "look up, look-up",
    "looked": "looked up",
    "looks": "looks up",
    "peer": "the other end of a socket, as in getpeername",
    "renew": "a lease on a queue lock, or a certificate",
    "renewed": "a lease on a queue lock, or a heartbeat",
    "whose": "sentences need pronouns",
}
"""Words of ``WORDS`` that a docstring may have, and of what."""

OTHER_USES: Final = (r"looks?(?![ -]up)", r"looked(?! up)")
"""Uses of such words that are refused all the same."""


def refused_words(text: str, allowed: Set[str] = frozenset()) -> Iterator[tuple[int, str]]:
    """Yield the lines of a docstring in which it has a word of ``WORDS`` that is not right there, and the advice.
    ``allowed``: more words that are right."""
    words = "|".join([*(WORDS.keys() - IN_SENTENCES.keys() - allowed), *OTHER_USES])
    for found in re.finditer(rf"\b(?:{words})\b", text, re.IGNORECASE):
        yield text.count("\n", 0, found.start()) + 1, f"not {found[0]!r}, but {WORDS[found[0].lower()]}"


def refused_phrases(text: str, place: Place) -> Iterator[tuple[int, str]]:
    """Yield the lines in which ``text`` has a phrase that is refused at ``place``, counted from 1, and the advice."""
    for pattern, (use, places) in PHRASES.items():
        if place not in places:
            continue
        regex = rf"\b(?:{pattern})".replace(" ", r"\s+") + (
            r"\b" if pattern[-1].isalpha() or pattern[-1] == "?" else ""
        )
        for found in re.finditer(regex, text, re.IGNORECASE):
            yield text.count("\n", 0, found.start()) + 1, f"not {' '.join(found[0].split())!r}, but {use}"
