"""The Rust crate: all ``unsafe`` stands in one small module, each with its reason, and what it is built of is a named
set of packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CRATE = Path(__file__).parents[2] / "native"
SOURCES = sorted((CRATE / "src").glob("*.rs"))
MEMORY = CRATE / "src" / "memory.rs"
MOST_LINES = 100

PACKAGES = {
    "pyo3": "Python",
    "pyo3-build-config": "of it",
    "pyo3-ffi": "of it",
    "pyo3-macros": "of it",
    "pyo3-macros-backend": "of it",
    "heck": "names, for its macros",
    "proc-macro2": "for its macros",
    "quote": "for its macros",
    "syn": "for its macros",
    "unicode-ident": "for its macros",
    "libc": "C's types, for Python's interface",
    "once_cell": "for Python's types",
    "portable-atomic": "for once_cell",
    "target-lexicon": "the platform, when it is built",
    "rocketmq-spark-native": "ourselves",
}
"""By name, what each is there for."""


def code_of(source: Path) -> list[str]:
    return source.read_text(encoding="utf-8").splitlines()


def test_unsafe_code_is_denied_but_in_one_small_module() -> None:
    lints = tomllib.loads((CRATE / "Cargo.toml").read_text(encoding="utf-8"))["lints"]["rust"]
    assert lints["unsafe_code"] == "deny"
    allowing = [source for source in SOURCES if "allow(unsafe_code)" in source.read_text(encoding="utf-8")]
    assert allowing == [MEMORY]
    assert len(code_of(MEMORY)) < MOST_LINES


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_each_unsafe_has_its_reason_above_it(source: Path) -> None:
    lines = code_of(source)
    used = [at for at, line in enumerate(lines) if "unsafe " in line.partition("//")[0]]
    assert bool(used) == (source == MEMORY)
    for at in used:
        assert any("safety" in line.lower() for line in lines[max(0, at - 4) : at]), f"{source.name}:{at + 1}"


def test_nothing_else_is_built_in() -> None:
    lock = tomllib.loads((CRATE / "crates.lock").read_text(encoding="utf-8"))
    assert {package["name"] for package in lock["package"]} == set(PACKAGES)
    assert [package["name"] for package in lock["package"] if "checksum" not in package] == ["rocketmq-spark-native"]


def test_packages_are_pinned_without_the_place_that_they_come_from() -> None:
    assert "://" not in (CRATE / "crates.lock").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo")
def test_cargo_s_lock_is_made_of_the_pinned_packages(tmp_path: Path) -> None:
    crate = shutil.copytree(CRATE, tmp_path / "native", ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    for _ in range(2):
        subprocess.run([sys.executable, str(crate / "lock.py")], check=True)
        made = tomllib.loads((crate / "Cargo.lock").read_text(encoding="utf-8"))
        sources = [package.pop("source", None) for package in made["package"]]
        assert made == tomllib.loads((CRATE / "crates.lock").read_text(encoding="utf-8"))
        assert sources.count(None) == 1
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", str(crate / "Cargo.toml")]
    subprocess.run(command, check=True, capture_output=True)
