#!/usr/bin/env python3
"""Python sources that travel in the library share a namespace: a name of one must not be another's as well.

Which ones do is read off the C++ files that run them, as kNameSource. A constant that two of them defined
once made a bound a hundred times wider than it says.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

PYAPI = Path(__file__).resolve().parent.parent / "src/pyapi"
NAMESPACES = {
    "hooks": ("hooks.cc",),
    "helpers": ("evaluator_work.cc", "talk.cc"),
}
EXTENDED = frozenset({"own_classes"})  # calls the one it replaces


def sources_of(*files: str) -> list[Path]:
    names = {match for file in files for match in re.findall(r"\bk(\w+)Source\b", (PYAPI / file).read_text())}
    return sorted(PYAPI / (re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower() + ".py") for name in names)


def defined_in(source: Path) -> set[str]:
    names = set()
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            # Of `a, b = c` both.
            places = [each for target in node.targets for each in getattr(target, "elts", [target])]
            names |= {place.id for place in places if isinstance(place, ast.Name)}
    return names


def clashes() -> list[str]:
    found = []
    for namespace, files in NAMESPACES.items():
        homes = defaultdict(list)
        for source in sources_of(*files):
            for name in defined_in(source):
                homes[name].append(source.name)
        found += [
            f"{name} is defined in {' and '.join(where)}, which share the namespace of {namespace}"
            for name, where in sorted(homes.items())
            if len(where) > 1 and name not in EXTENDED
        ]
    return found


def main() -> int:
    found = clashes()
    print("\n".join(found) if found else "every name of the embedded sources is one file's")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
