"""Pages of the reference about what programs import or link: the Python package, the C header."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python/probing"
HEADER = ROOT / "include/probing/probing.h"
Definition = ast.FunctionDef | ast.ClassDef


def public_names() -> list[str]:
    """__all__ of the package, without what is only a value."""
    for node in ast.parse((PACKAGE / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [name for name in ast.literal_eval(node.value) if not name.startswith("__")]
    raise ValueError("the package has no __all__")


def definitions(path: Path) -> dict[str, Definition]:
    """By name; of overloads the last, which takes everything."""
    body = ast.parse(path.read_text()).body
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def documented() -> dict[str, Definition]:
    """What has the docstrings: the sources, not the file of types."""
    paths = sorted(PACKAGE.glob("*.py"), key=lambda path: path.name == "__init__.py")  # which has the word
    return {name: node for path in paths for name, node in definitions(path).items()}


def text_of(node: Definition | None) -> str:
    """A docstring as Markdown: what is indented stays so, ``x`` is `x`."""
    text = inspect.cleandoc(ast.get_docstring(node, clean=False) or "") if node is not None else ""
    return re.sub(r"::$", ":", text.replace("``", "`"), flags=re.MULTILINE)


def signature(node: ast.FunctionDef, prefix: str) -> str:
    arguments = node.args
    if arguments.args and arguments.args[0].arg == "self":
        arguments = ast.arguments(**{**vars(arguments), "args": arguments.args[1:]})
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{prefix}{node.name}({ast.unparse(arguments)}){returns}"


def methods_of(types: ast.ClassDef, sources: ast.ClassDef | None, prefix: str) -> list[str]:
    told = {n.name: n for n in sources.body if isinstance(n, ast.FunctionDef)} if sources else {}
    lines = []
    for node in types.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            lines += [f"    {signature(node, prefix)}", "", text_of(told.get(node.name)), ""]
    return lines


def python_page() -> str:
    types, sources = definitions(PACKAGE / "__init__.pyi"), documented()
    module = ast.get_docstring(ast.parse((PACKAGE / "__init__.py").read_text())) or ""
    lines = ["# Python package", "", module.replace("``", "`"), ""]
    for name in public_names():
        lines += [f"## probing.{name}", ""]
        node = types.get(name)
        if isinstance(node, ast.FunctionDef):
            lines += [f"    {signature(node, 'probing.')}", "", text_of(sources.get(name)), ""]
        else:  # a class, or an object of one
            kind = name if node is not None else name.capitalize()
            lines += [text_of(sources.get(kind)), ""]
            lines += methods_of(types[kind], sources.get(kind), f"{name}.")
        if name == "connect":
            connection = types["Connection"]
            lines += methods_of(connection, sources["Connection"], "connect(…).")
        elif name == "query":
            lines += [text_of(sources["Rows"]), "", *methods_of(types["Rows"], sources["Rows"], "rows.")]
    return "\n".join(lines)


def c_page() -> str:
    lines = ["# C header", "", "`#include <probing/probing.h>`; how it is used: "]
    lines[-1] += "[tables of your own](../guides/plugins.md). The file as it is installed:"
    return "\n".join([*lines, "", "```c", HEADER.read_text().rstrip("\n"), "```", ""])
