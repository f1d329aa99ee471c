# Code of the job's functions with calls of ours in it: of log points and exprs= before Python 3.12. Nothing
# else in the process is touched or slower. The code is compiled anew from the file, and only when that gives
# exactly what runs now. Runs in the target. Python 3.6 syntax, built-in modules only.
import _ast
import sys

from .describe import Refused
from .heap import referrers


def nested(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CODE):
            for inner in nested(constant):
                yield inner


def own_lines(code):
    """The line numbers that a code object has instructions for, nested functions not counted."""
    if hasattr(code, "co_lines"):
        return {line for _, _, line in code.co_lines() if line}
    lines, line = set(), code.co_firstlineno
    table = code.co_lnotab
    for start, step in zip(table[::2], table[1::2]):
        if start:
            lines.add(line)
        line += step - 256 if step > 127 else step
    lines.add(line)
    return lines


def constant(marker):
    return _ast.Constant(marker, None) if sys.version_info >= (3, 8) else _ast.Bytes(marker)


def none_at(place):
    node = _ast.NameConstant(None) if sys.version_info < (3, 8) else _ast.Constant(None, None)
    node.lineno = node.end_lineno = place.lineno
    node.col_offset = node.end_col_offset = place.col_offset
    return node


def call_of(marker, name, arguments, place):
    node = _ast.Call(_ast.Attribute(constant(marker), name, _ast.Load()), arguments, [])
    todo = [node]
    while todo:
        each = todo.pop()
        each.lineno, each.col_offset = place.lineno, place.col_offset
        each.end_lineno, each.end_col_offset = place.lineno, place.col_offset
        todo += [
            child
            for child in (getattr(each, "func", None), getattr(each, "value", None))
            if hasattr(child, "_fields")
        ]
    return node


def statement(expression):
    node = _ast.Expr(expression)
    node.lineno, node.col_offset = expression.lineno, expression.col_offset
    node.end_lineno, node.end_col_offset = expression.lineno, expression.col_offset
    return node


def bodies(node):
    """All lists of statements below a node, those of nested functions and classes not."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        block = getattr(node, field, None)
        if isinstance(block, list):
            if block and isinstance(block[0], _ast.stmt):
                yield block
            for child in block:
                if not isinstance(child, (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef)):
                    for inner in bodies(child):
                        yield inner


def first_line(node):
    return min([node.lineno] + [each.lineno for each in node.decorator_list])


def find_definition(tree, code):
    todo = [tree]
    while todo:
        node = todo.pop()
        is_function = isinstance(node, (_ast.FunctionDef, _ast.AsyncFunctionDef))
        if is_function and node.name == code.co_name and first_line(node) == code.co_firstlineno:
            return node
        todo += [child for field in node._fields for child in as_list(getattr(node, field, None))]
    raise Refused("%s is no plain function; before Python 3.12 only those can be watched" % code.co_name)


def as_list(value):
    return [each for each in value if hasattr(each, "_fields")] if isinstance(value, list) else []


def insert(definition, kind, line, marker):
    """A call of hit() at a line, or those of start() and leave(value) around the whole."""
    if kind == "log":
        line = line or definition.body[0].lineno
        for block in bodies(definition):
            for at, node in enumerate(block):
                if node.lineno == line and not (
                    isinstance(node, _ast.Expr) and hasattr(node.value, "s") and at == 0
                ):
                    block.insert(at, statement(call_of(marker, "hit", [], node)))
                    return
        raise Refused("no statement begins at line %d" % line)
    for block in bodies(definition):
        for node in block:
            if isinstance(node, _ast.Return):
                node.value = call_of(marker, "leave", [node.value or none_at(node)], node)
    last = definition.body[-1]
    definition.body.append(statement(call_of(marker, "leave", [none_at(last)], last)))
    definition.body.insert(0, statement(call_of(marker, "start", [], definition.body[0])))


def with_constants(code, constants):
    if hasattr(code, "replace"):
        return code.replace(co_consts=constants)
    return CODE(
        code.co_argcount, code.co_kwonlyargcount, code.co_nlocals, code.co_stacksize, code.co_flags,
        code.co_code, constants, code.co_names, code.co_varnames, code.co_filename, code.co_name,
        code.co_firstlineno, code.co_lnotab, code.co_freevars, code.co_cellvars,
    )  # fmt: skip


def source_of(code):
    try:
        with open(code.co_filename, "rb") as file:
            return file.read()
    except OSError as error:
        raise Refused(
            "before Python 3.12 the source of %s() is needed, and %s cannot be read (%s)"
            % (code.co_name, code.co_filename, error.strerror)
        ) from None


def compiled(code, wanted):
    """The code of a function with the calls in it."""
    tree = compile(source_of(code), code.co_filename, "exec", _ast.PyCF_ONLY_AST)
    definition = find_definition(tree, code)
    for number, kind, line, _ in sorted(wanted, key=lambda item: item[1] == "log"):
        insert(definition, kind, line, b"probing point %d" % number)
    module = compile(tree, code.co_filename, "exec", 0, True)
    for each in nested(module):
        if each.co_name == code.co_name and each.co_firstlineno == code.co_firstlineno:
            return each
    raise Refused("%s is not found in %s any more" % (code.co_name, code.co_filename))


def with_hooks(code, wanted):
    plain = compiled(code, [])
    if (plain.co_code, plain.co_names, plain.co_varnames) != (code.co_code, code.co_names, code.co_varnames):
        raise Refused("%s differs from the code that runs: was it changed since?" % code.co_filename)
    new = compiled(code, wanted)
    if new.co_freevars != code.co_freevars:
        raise Refused("%s() cannot be watched" % code.co_name)
    known = {b"probing point %d" % number: hook for number, _, _, hook in wanted}
    return with_constants(
        new, tuple(known.get(each, each) if type(each) is bytes else each for each in new.co_consts)
    )


class Recompiled(object):
    """Functions that run such code."""

    def __init__(self):
        self.originals = {}  # id of a function → (function, its own code, its code now)

    def original_of(self, code):
        for _, original, current in self.originals.values():
            if current is code:
                return original
        return code

    def refresh(self, code, wanted):
        """All functions with this code get exactly these calls: (number, kind, line, hook). Returns them."""
        new = with_hooks(code, wanted) if wanted else code
        functions = [entry[0] for entry in self.originals.values() if entry[1] is code]
        functions += [f for f in referrers([code]) if type(f) is FUNCTION and f.__code__ is code]
        for function in functions:
            known_entry = self.originals.get(id(function))
            if known_entry is not None and function.__code__ is not known_entry[2]:
                continue  # somebody else has changed it meanwhile
            function.__code__ = new
            if wanted:
                self.originals[id(function)] = (function, code, new)
            else:
                self.originals.pop(id(function), None)
        return functions


FUNCTION = type(insert)
CODE = type(insert.__code__)
