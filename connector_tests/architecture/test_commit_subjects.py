"""Subjects of commits are ``area: imperative`` of at most 72 characters, from a commit on; reasons are in the body."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from connector_tests.support.timeouts import WAIT_S

ROOT: Final = Path(__file__).parents[2]
SINCE: Final = "f338a139074761ae340b99b420edffb6d4da8937"
"""The last commit whose subject is not checked."""
SUBJECT_CHARACTERS: Final = 72
SUBJECT: Final = re.compile(r"[A-Za-z_]+(?:(?:, |/)[A-Za-z_]+)*: (?P<verb>[a-z]+(?:-[a-z]+)*)(?: .*)?[^.\s]")
"""Areas, a colon, and what is done to them; a subject is no sentence with a period."""
NOT_IMPERATIVE: Final = re.compile(r".+(?:ed|ing)$|(?:adds|fixes|makes|removes|renames|a|an|the|what|more|some|no)$")
IMPERATIVE: Final = {"embed", "feed", "need", "proceed", "shed", "speed", "bring", "ping", "string"}
"""Verbs that end as other forms do."""
MERGES: Final = ("Merge ", "Revert ", "fixup! ", "squash! ")
GIT_S: Final = WAIT_S


def subjects() -> list[str]:
    """Return the subjects of all commits after ``SINCE``; skip the test where the history is not there."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("no git history: an archive of the source")
    run = partial(subprocess.run, capture_output=True, text=True, timeout=GIT_S)
    if run([git, "-C", str(ROOT), "rev-parse", "--is-shallow-repository"], check=True).stdout.strip() == "true":
        pytest.skip(f"the history may not reach back to {SINCE[:8]}: a shallow clone")
    log: str = run([git, "-C", str(ROOT), "log", "--format=%s", f"{SINCE}..HEAD"], check=True).stdout
    return log.splitlines()


def problem(subject: str) -> str | None:
    """Return what is wrong with a subject, or None."""
    if subject.startswith(MERGES):
        return None
    if len(subject) > SUBJECT_CHARACTERS:
        return f"{len(subject)} characters, at most {SUBJECT_CHARACTERS}: {subject}"
    match = SUBJECT.fullmatch(subject)
    if match is None:
        return f"not 'area: imperative': {subject}"
    verb = match["verb"]
    return f"{verb!r} is no imperative: {subject}" if NOT_IMPERATIVE.match(verb) and verb not in IMPERATIVE else None


def test_subjects_are_an_area_and_an_imperative() -> None:
    found = [wrong for subject in subjects() if (wrong := problem(subject)) is not None]
    assert not found, "\n".join(["", *found])


@pytest.mark.parametrize(
    "subject",
    [
        "Ask about all topics of rows at once",
        "sink: resolved all topics together",
        "sink: resolving all topics together",
        "sink: Resolve all topics together",
        "sink: the topics of a batch",
        "sink: resolve all topics together.",
        "sink:resolve all topics",
        f"sink: resolve {'x' * 60}",
    ],
)
def test_another_subject_is_found(subject: str) -> None:
    assert problem(subject) is not None


@pytest.mark.parametrize(
    "subject",
    [
        "sink: resolve all topics of an Arrow batch together",
        "docs, tests: follow the new texts",
        "failed_rows/send_back: feed rows to the broker by group",
        "tests: replace",
        "Merge branch 'main'",
    ],
)
def test_a_right_subject_is_none(subject: str) -> None:
    assert problem(subject) is None
