"""The file map: each package and module, by the first paragraph of its docstring."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = "rocketmq_spark"


def file_map() -> str:
    """Return the packages from the lowest layer of import-linter's contract to the highest; the base layer first."""
    lines = [f"## The base layer\n\n{first_paragraph(ROOT / PACKAGE / '__init__.py')}\n"]
    lines += [module_line(file) for file in modules(ROOT / PACKAGE)]
    for package in packages():
        name = package.relative_to(ROOT / PACKAGE).as_posix()
        lines += [f"\n## {name}\n\n{first_paragraph(package / '__init__.py')}\n", *map(module_line, modules(package))]
    return "\n".join(lines) + "\n"


def packages() -> Iterator[Path]:
    """Folders of the package, each before the folders in it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in contracts["contracts"] if contract["type"] == "layers")
    for layer in reversed(layers):
        for name in layer.split("|"):
            folder = ROOT / PACKAGE / name.strip()
            yield from sorted(init.parent for init in folder.rglob("__init__.py"))


def modules(folder: Path) -> list[Path]:
    """Return the modules of a package, without its ``__init__``."""
    return [file for file in sorted(folder.glob("*.py")) if file.stem != "__init__"]


def module_line(file: Path) -> str:
    """One item of the list, with a link."""
    return f"* [`{file.stem}`](../{file.relative_to(ROOT).as_posix()}): {first_paragraph(file)}"


def first_paragraph(file: Path) -> str:
    """Of the module's docstring, in one line."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    if not docstring:
        raise SystemExit(f"{file} has no docstring to show in the file map")
    return " ".join(docstring.partition("\n\n")[0].replace("``", "`").split())
