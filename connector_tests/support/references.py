"""References: which functions, methods and parameters of a package its own code uses, by the types of the receivers.

mypy infers the type before each dot and writes the full name of what is used (``--export-ref-info``). A use of a method
reaches the class that defines it, its overrides, and for a protocol the classes that implement it. Where mypy knows no
type (``Any``, a union) the use reaches every definition of that name. A class or a nested function, whose uses mypy
does not write, is used where its name stands.
"""

from __future__ import annotations

import ast
import importlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from mypy import api

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
UNKNOWN: Final = "*"
"""mypy's name for a receiver whose type it does not know."""


class Place(NamedTuple):
    """Where a use begins."""

    module: str
    line: int
    column: int


@dataclass(frozen=True)
class Definition:
    """A function, method or class; ``owner`` is the full name of its class, or of its module."""

    module: str
    owner: str
    node: Function | ast.ClassDef
    is_nested: bool
    is_method: bool

    @property
    def full_name(self) -> str:
        return f"{self.owner}.{self.node.name}"

    def encloses(self, place: Place) -> bool:
        """Whether the place is inside: a use by itself is none."""
        return place.module == self.module and self.node.lineno <= place.line <= (self.node.end_lineno or 0)


@dataclass
class Class:
    """What the uses of its methods reach depends on."""

    bases: list[str]
    is_protocol: bool
    methods: set[str] = field(default_factory=set)


class Module(NamedTuple):
    """A file, and mypy's references in it: full names by place and last part of the name."""

    name: str
    tree: ast.Module
    references: dict[tuple[Place, str], set[str]]


class References:
    """Of the packages and folders of scripts in ``folders``; ``definitions`` are those of the first."""

    def __init__(self, folders: list[Path], cache: Path) -> None:
        modules = [list(_modules(folder, cache)) for folder in folders]
        self._modules = [module for of_folder in modules for module in of_folder]
        self.definitions = [one for module in modules[0] for one in _definitions(module)]
        self._classes = {one.full_name: _class_of(one, self._modules) for one in self.definitions if _is_class(one)}
        for one in self.definitions:
            if one.is_method and not (self._classes[one.owner].is_protocol and one.node.decorator_list):
                self._classes[one.owner].methods.add(one.node.name)
        self._lineages = {name: self._lineage(name) for name in self._classes}
        self._heirs: defaultdict[str, list[str]] = defaultdict(list)
        for heir, lineage in self._lineages.items():
            for name in lineage[1:]:
                self._heirs[name].append(heir)
        self._uses = self._all_uses()
        self._calls, self._passed_on = self._all_calls()

    def unused(self) -> set[str]:
        """Full names of what is defined and not used outside its own lines."""
        names = {place: name for module in self._modules for place, name in _names(module)}
        by_name = defaultdict(list)
        for place, name in names.items():
            by_name[name].append(place)
        return {
            one.full_name
            for one in self.definitions
            if not _is_special(one.node.name)
            and all(map(one.encloses, by_name[one.node.name] if one.is_nested or _is_class(one) else self._places(one)))
            and not (one.is_method and self._overrides_foreign(one.owner, one.node.name))
        }

    def never_passed(self) -> set[str]:
        """``function(parameter=)`` of the parameters with a default that no call gives another value. A function that
        is handed over without a call may be given all."""
        return {
            f"{_called_as(one)}({name}=)"
            for one in self.definitions
            if isinstance(one.node, Function)
            and not one.is_nested
            and one.full_name not in self._passed_on
            and not (one.is_method and self._overrides_foreign(one.owner, one.node.name))
            for name in _optional(one.node.args) - self._passed(one)
        }

    def _places(self, one: Definition) -> list[Place]:
        return self._uses[one.full_name] + self._uses[f"{UNKNOWN}.{one.node.name}"]

    def _passed(self, one: Definition) -> set[str]:
        assert isinstance(one.node, Function)
        is_bound = one.is_method and not any(ast.unparse(line) == "staticmethod" for line in one.node.decorator_list)
        calls = self._calls[_called_as(one)] + self._calls[f"{UNKNOWN}.{one.node.name}"]
        return {name for call in calls for name in _arguments(call, one.node.args, int(is_bound))}

    def _all_uses(self) -> defaultdict[str, list[Place]]:
        uses: defaultdict[str, list[Place]] = defaultdict(list)
        for module in self._modules:
            for (place, _), targets in module.references.items():
                for reached in self._reached(targets):
                    uses[reached].append(place)
        for one in self.definitions:
            if _is_class(one):
                for name, place in _super_uses(one):
                    for base in self._classes[one.full_name].bases:
                        uses[f"{self._definer(base, name)}.{name}"].append(place)
        return uses

    def _all_calls(self) -> tuple[defaultdict[str, list[ast.Call]], set[str]]:
        calls: defaultdict[str, list[ast.Call]] = defaultdict(list)
        released = set()
        for module in self._modules:
            called = {id(node.func): node for node in ast.walk(module.tree) if isinstance(node, ast.Call)}
            for node in ast.walk(module.tree):
                if isinstance(node, ast.Name | ast.Attribute):
                    targets = module.references.get((_place(module.name, node), _last(node)), set())
                    for reached in self._reached(targets):
                        if id(node) in called:
                            calls[reached].append(called[id(node)])
                        elif reached not in self._classes:
                            released.add(reached)
        return calls, released

    def _reached(self, targets: Iterable[str]) -> Iterator[str]:
        """Full names of the definitions that a use of these may run."""
        for target in targets:
            owner, _, name = target.rpartition(".")
            if owner not in self._classes:
                yield from (target, *self._heirs[target])
                continue
            yield f"{self._definer(owner, name)}.{name}"
            yield from (f"{heir}.{name}" for heir in self._heirs[owner])
            if self._classes[owner].is_protocol:
                yield from (f"{self._definer(one, name)}.{name}" for one in self._implementers(owner))

    def _implementers(self, protocol: str) -> Iterator[str]:
        required = self._classes[protocol].methods
        for name, lineage in self._lineages.items():
            if required <= {method for one in lineage if one in self._classes for method in self._classes[one].methods}:
                yield name

    def _lineage(self, name: str) -> list[str]:
        """The class and all that it inherits from, foreign ones too."""
        bases = self._classes[name].bases if name in self._classes else []
        return [name, *(one for base in bases for one in self._lineage(base))]

    def _definer(self, owner: str, name: str) -> str:
        """The class whose method it is; ``owner`` where none of the package is found."""
        inside = (one for one in self._lineages.get(owner, ()) if one in self._classes)
        return next((one for one in inside if name in self._classes[one].methods), owner)

    def _overrides_foreign(self, owner: str, name: str) -> bool:
        return any(hasattr(_foreign(one), name) for one in self._lineages[owner] if one not in self._classes)


def write_references(folders: list[Path], cache: Path, settings: Path) -> None:
    """Have mypy write the references of all modules in ``folders`` into the folder ``cache``.

    Raises AssertionError with its output when mypy finds an error.
    """
    flags = ["--export-ref-info", "--no-sqlite-cache", "--cache-dir", str(cache), "--config-file", str(settings)]
    output, errors, status = api.run([*flags, *map(str, folders)])
    assert status == 0, output + errors


def _modules(folder: Path, cache: Path) -> Iterator[Module]:
    base = folder.parent if (folder / "__init__.py").exists() else folder
    for file in sorted(folder.rglob("*.py")):
        if file.stem.endswith("_pb2"):  # generated
            continue
        name = ".".join(file.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
        (written,) = cache.glob(f"*/{file.relative_to(base).with_suffix('')}.refs.json")
        references = defaultdict(set)
        for one in json.loads(written.read_text(encoding="utf-8")):
            last = one["target"].rpartition(".")[2]
            references[Place(name, one["line"], one["column"]), last].add(one["target"])
        yield Module(name, ast.parse(file.read_text(encoding="utf-8")), references)


def _definitions(module: Module) -> Iterator[Definition]:
    def inside(node: ast.AST, owner: str, *, nested: bool, method: bool) -> Iterator[Definition]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function | ast.ClassDef):
                yield Definition(module.name, owner, child, nested, method)
                is_class = isinstance(child, ast.ClassDef)
                yield from inside(child, f"{owner}.{child.name}", nested=nested or not is_class, method=is_class)
            else:
                yield from inside(child, owner, nested=nested, method=method)

    return inside(module.tree, module.name, nested=False, method=False)


def _class_of(one: Definition, modules: list[Module]) -> Class:
    assert isinstance(one.node, ast.ClassDef)
    references = next(module.references for module in modules if module.name == one.module)
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in one.node.bases]
    named = [base for base in bases if isinstance(base, ast.Name | ast.Attribute)]
    targets = (references.get((_place(one.module, base), _last(base)), set()) for base in named)
    return Class([name for names in targets for name in names], any(_last(base) == "Protocol" for base in named))


def _names(module: Module) -> Iterator[tuple[Place, str]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name | ast.Attribute):
            yield _place(module.name, node), _last(node)


def _super_uses(one: Definition) -> Iterator[tuple[str, Place]]:
    for node in ast.walk(one.node):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "super()":
            yield node.attr, _place(one.module, node)


def _arguments(call: ast.Call, parameters: ast.arguments, bound: int) -> Iterator[str]:
    """The parameters that a call may give a value."""
    positional = [one.arg for one in parameters.posonlyargs + parameters.args][bound:]
    is_open = any(isinstance(one, ast.Starred) for one in call.args)
    yield from positional if is_open else positional[: len(call.args)]
    for keyword in call.keywords:
        if keyword.arg is None:
            yield from (*positional, *(one.arg for one in parameters.kwonlyargs))
        else:
            yield keyword.arg


def _optional(parameters: ast.arguments) -> set[str]:
    positional = [one.arg for one in parameters.posonlyargs + parameters.args]
    named = zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True)
    return {*positional[len(positional) - len(parameters.defaults) :], *(one.arg for one, value in named if value)}


def _called_as(one: Definition) -> str:
    return one.owner if one.node.name == "__init__" else one.full_name


def _foreign(full_name: str) -> object:
    module, _, name = full_name.rpartition(".")
    return getattr(importlib.import_module(module), name, None) if module else None


def _is_class(one: Definition) -> bool:
    return isinstance(one.node, ast.ClassDef)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def _place(module: str, node: ast.expr) -> Place:
    return Place(module, node.lineno, node.col_offset)
