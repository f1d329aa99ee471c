"""The Python that travels in the library: files of src/embedded that are modules, also for a plain Python."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "src"
FOLDER = SOURCES / "embedded"
FILES = sorted(FOLDER.rglob("*.py"))
NAMES = [file.stem for file in FILES]
# "embedded.core.heap"
FULL_NAMES = {file.stem: f"embedded.{file.parent.name}.{file.stem}" for file in FILES}


class Native(types.ModuleType):
    """Stands in for what C++ code offers."""

    def __getattr__(self, name: str) -> MagicMock:
        if name.startswith("__"):
            raise AttributeError(name)
        return None if name == "kept" else MagicMock(name=name)


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    # Not by a path to src: the folder src/torch would be a module of that name there.
    package = sys.modules["embedded"] = types.ModuleType("embedded")
    package.__path__ = [str(FOLDER)]
    sys.modules["embedded.native"] = Native("embedded.native")
    yield
    for name in [name for name in sys.modules if name == "embedded" or name.startswith("embedded.")]:
        del sys.modules[name]


def load(name: str) -> types.ModuleType:
    return importlib.import_module(FULL_NAMES[name])


def own_imports(tree: ast.AST) -> Iterator[ast.ImportFrom]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node


def module_of(node: ast.ImportFrom) -> str:
    """As the library calls it: without the folder."""
    assert node.module
    return node.module.rpartition(".")[2]


def test_the_library_can_tell_modules_by_their_names_alone() -> None:
    assert len(NAMES) == len(FULL_NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_file_is_imported_on_its_own(name: str) -> None:
    load(name)


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_the_library_can_read_each_import(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    forms = re.findall(r"\n( *)from \.\.?([a-z]+\.)?([a-z_]+) import (?:\(([^)]*)\)|([^(\n]*))", text)
    read = [sorted(re.findall(r"\w+", inside or line)) for _, _, _, inside, line in forms]
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    assert sorted(read) == sorted(sorted(alias.name for alias in node.names) for node in found)
    for node in found:
        assert module_of(node) in [*NAMES, "native"]
        if module_of(node) != "native":
            there = "." + node.module if node.level == 2 else f".{file.parent.name}.{node.module}"
            assert "embedded" + there == FULL_NAMES[module_of(node)]
        assert not any(alias.asname for alias in node.names)
    # What a function imports becomes a name of the module: a variable of the function would hide it.
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        imported = {alias.name for node in own_imports(function) for alias in node.names}
        stored = {
            n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        arguments = {argument.arg for argument in ast.walk(function) if isinstance(argument, ast.arg)}
        assert not imported & (stored | arguments)


def test_modules_do_not_import_each_other_in_circles() -> None:
    imports = {
        file.stem: [
            module_of(n)
            for n in ast.parse(file.read_text()).body
            if isinstance(n, ast.ImportFrom) and n.level
        ]
        for file in FILES
    }

    def visit(name: str, way: list[str]) -> None:
        assert name not in way, " → ".join([*way, name])
        for wanted in imports.get(name, ()):
            visit(wanted, [*way, name])

    for name in NAMES:
        visit(name, [])


# What a folder's modules may import at their tops; what a function imports when it is called is free.
MAY_IMPORT = {
    "core": set(),
    "console": {"core"},
    "debug": {"core", "console"},
    "torch": {"core"},
    "hooks": {"core", "torch"},
    "live": {"core", "torch"},
}


def test_folders_depend_on_each_other_in_one_direction() -> None:
    for file in FILES:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.level == 2 and node.module != "native":
                folder = str(node.module).partition(".")[0]
                assert folder in MAY_IMPORT[file.parent.name], f"{file.name} imports {node.module}"


def test_native_names_are_made_by_native_code() -> None:
    code = "".join(file.read_text(encoding="utf-8") for file in SOURCES.glob("*/*.cc"))
    for file in FILES:
        for node in own_imports(ast.parse(file.read_text(encoding="utf-8"))):
            for alias in node.names if module_of(node) == "native" else ():
                assert f'"{alias.name}"' in code, f"{file.name} imports {alias.name}"


def test_loader_gives_names_and_says_what_is_missing() -> None:
    own = load("own")
    own.modules.update(heap={"Pace": 1, "walk": 2}, native={"load_module": own.modules.__getitem__})
    names: dict[str, object] = {}
    own.own_import(names, "heap", "\n    Pace,\n    walk,\n")
    assert names == {"Pace": 1, "walk": 2}
    with pytest.raises(ImportError, match="own heap has no Peace"):
        own.own_import(names, "heap", "Peace")
    with pytest.raises(KeyError):
        own.own_import(names, "nothing", "at_all")


def test_pure_parts() -> None:
    matches = load("module_names").matches
    assert matches("layer[0-3].*", "layer2.attention") and not matches("layer[!0-3].*", "layer2.attention")
    split = load("watch").split_expressions
    assert split("f(a, b), 'x,y', c") == ["f(a, b)", " 'x,y'", " c"]
    bounded = load("bounded").bounded_repr
    assert bounded([1, "two"], 1000) == "[1, 'two']" and len(bounded("x" * 10**6, 1000)) < 2000
    complete = load("complete")
    assert complete.word_before("print(os.pa") == "os.pa"
    assert load("torch").read_spec("on,exprs=loss@train,acc@train,rate=0.5")["exprs"] == [
        "loss@train",
        "acc@train",
    ]
    may_end = load("guard").may_end
    assert may_end(ast.parse("import os\nos._exit(1)")) == "os._exit" and not may_end(ast.parse("x = 1"))
