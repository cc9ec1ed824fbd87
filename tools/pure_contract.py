"""A contract of import-linter: each module is pure, also through what it imports, or is named as a shell.

``shells``: modules, and packages with all that is in them. ``forbidden_modules``: what no pure module reaches: sockets,
threads, clocks, Spark. A shell that reaches none of it breaks the contract too, and so does a name of nothing.
"""

from __future__ import annotations

from typing import Any, ClassVar

import grimp
from importlinter import Contract, ContractCheck, fields, output


class PureContract(Contract):
    """See above. ``root``: the package whose modules are meant; the package itself is not."""

    type_name: ClassVar[str] = "pure"

    root: Any = fields.StringField()
    shells: Any = fields.SetField(subfield=fields.StringField())
    forbidden_modules: Any = fields.SetField(subfield=fields.StringField())

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        reaching = {
            module
            for world in self.forbidden_modules & graph.modules
            for module in graph.find_downstream_modules(world)
        }
        modules = {module for module in graph.modules if module.startswith(f"{self.root}.")}
        impure = sorted(module for module in modules & reaching if not self._is_shell(module))
        useless = sorted(shell for shell in self.shells if not any(is_within(module, shell) for module in reaching))
        chains = [self._chain(graph, module) for module in impure]
        return ContractCheck(kept=not impure and not useless, metadata={"chains": chains, "useless": useless})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for chain in check.metadata["chains"]:
            output.print_error(f"{' -> '.join(chain)}: make the first pure, or name it a shell", bold=False)
        for shell in check.metadata["useless"]:
            output.print_error(f"{shell} is pure, and named a shell", bold=False)

    def _is_shell(self, module: str) -> bool:
        return any(is_within(module, shell) for shell in self.shells)

    def _chain(self, graph: grimp.ImportGraph, module: str) -> tuple[str, ...]:
        """The shortest way from ``module`` to what it must not reach."""
        chains = (graph.find_shortest_chain(module, world) for world in self.forbidden_modules & graph.modules)
        return min((chain for chain in chains if chain is not None), key=len)


def is_within(module: str, package: str) -> bool:
    """Whether it is the package, or somewhere in it."""
    return f"{module}.".startswith(f"{package}.")
