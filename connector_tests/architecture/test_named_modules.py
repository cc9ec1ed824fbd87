"""What a docstring or comment names in double backticks as a module is one."""

from __future__ import annotations

import re
from pathlib import Path

import rocketmq_spark

PACKAGE = Path(rocketmq_spark.__file__).parent
NO_ROOM = {"options"}  # ``options.subscribe`` is the value of an option
ROOMS = "|".join(sorted({path.parent.name for path in PACKAGE.glob("*/__init__.py")} - NO_ROOM))
DOTTED = re.compile(rf"``((?:{ROOMS})(?:\.[a-z_]+)+)``")
FILE = re.compile(r"``([a-z_]+\.py)``")


def named_modules(text: str) -> list[str]:
    return [*DOTTED.findall(text), *FILE.findall(text)]


def is_there(name: str) -> bool:
    if name.endswith(".py"):
        return (PACKAGE.parent / name).exists() or any(PACKAGE.rglob(name))
    path = PACKAGE.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def test_every_module_that_is_named_is_there() -> None:
    gone = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in PACKAGE.rglob("*.py")
        for name in named_modules(path.read_text(encoding="utf-8"))
        if not is_there(name)
    }
    assert gone == set()


def test_a_module_that_is_gone_is_noticed() -> None:
    assert named_modules("see ``wire.column_table`` and ``message.py``") == ["wire.column_table", "message.py"]
    assert not is_there("wire.column_table")
    assert not is_there("message.py")
    assert is_there("wire.arrow.column_table")
