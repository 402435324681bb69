"""Magic: ``%%explain`` for notebooks. ``%load_ext accel`` makes it known.

A cell that begins with ``%%explain`` is explained as a function of the variables it reads, and then run once, as any
cell is: what it assigns stays.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from accel.explanation import Explanation, explain

__all__ = ["explain_cell", "function_of", "load_ipython_extension"]

NAME = "cell"
OPTIONS: dict[str, Callable[[str], Any]] = {"--threads": int, "--seconds": float}


def load_ipython_extension(shell: Any) -> None:
    """Make ``%%explain`` known to an IPython shell."""

    def magic(line: str, cell: str) -> Explanation | None:
        return explain_cell(shell, line, cell)

    magic.__doc__ = explain_cell.__doc__
    shell.register_magic_function(magic, "cell", "explain")


def explain_cell(shell: Any, line: str, cell: str) -> Explanation | None:
    """Explain the NumPy calls of a cell, then run it.

    ``%%explain [--threads N] [--seconds S]``

    The cell is explained as a function of the variables that it reads: it runs many times, on arrays that keep their
    values, and what it prints it prints each time. At the end it runs once in the notebook itself. A cell that raises
    shows its own traceback and no explanation.
    """
    options = _options(line)
    source = shell.transform_cell(cell)
    filename = shell.compile.cache(source, shell.execution_count)  # tracebacks show the cell's lines
    function, arguments = function_of(source, shell.user_ns, filename)
    found = explain(function, *arguments.values(), **options)
    shell.ex(compile(source, filename, "exec"))
    return found


def _options(line: str) -> dict[str, Any]:
    """Return the options of `explain` on the line of the magic; raise IPython's `UsageError` for anything else."""
    from IPython.core.error import UsageError

    options: dict[str, Any] = {}
    words = line.split()
    for option, value in zip(words[::2], [*words[1::2], ""], strict=False):
        kind = OPTIONS.get(option)
        try:
            if kind is None:
                raise ValueError(f"there is no option {option!r}")
            options[option.removeprefix("--")] = kind(value)
        except ValueError as error:
            raise UsageError(f"%%explain [--threads N] [--seconds S]: {error}") from error
    return options


def function_of(
    source: str, namespace: Mapping[str, Any], filename: str = "<cell>"
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return a function whose body is `source`, and its arguments: what it reads of the arrays in a namespace.

    Variables that it both reads and assigns are arguments too, whatever they are. All else it finds in the namespace.

    Raises
    ------
    SyntaxError
        If the source is no Python, or cannot stand in a function.

    Examples
    --------
    >>> import numpy as np
    >>> from accel.magic import function_of
    >>> function, arguments = function_of("y = np.sqrt(x) * n", {"x": np.ones(3), "n": 2, "np": np})
    >>> list(arguments), function(*arguments.values())
    (['x'], None)
    """
    tree = ast.parse(source, filename)
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    updates = (node.target for node in ast.walk(tree) if isinstance(node, ast.AugAssign))
    updated = {target.id for target in updates if isinstance(target, ast.Name)}
    assigned = {symbol.get_name() for symbol in symtable.symtable(source, filename, "exec").get_symbols()
                if symbol.is_assigned()}  # fmt: skip
    wanted = [
        name
        for name, value in namespace.items()
        if (name in read and (name in assigned or isinstance(value, np.ndarray))) or name in updated
    ]
    definition = ast.parse(f"def {NAME}({', '.join(wanted)}): pass")
    body = definition.body[0]
    assert isinstance(body, ast.FunctionDef)
    body.body = tree.body or [ast.Pass(lineno=1, col_offset=0)]
    scope = dict(namespace)
    exec(compile(ast.fix_missing_locations(definition), filename, "exec"), scope)
    return scope[NAME], {name: namespace[name] for name in wanted}
