# ruff: noqa: F821  session.py, codes.py and watch.py come before this file.
# Points before Python 3.12: the function that is watched gets code in which a call of ours stands at the
# line; nothing else in the process is touched or slower. The code is compiled anew from the file, and only
# when that gives exactly what runs now. Calls that are under way run their old code: their thread is
# traced until they return. Python 3.6 syntax, built-in modules only.


class Hook(object):
    """What the rewritten code calls."""

    def __init__(self, number, point):
        self.point = point
        self.alive = True
        self.hit = make_hit_gate(number % MOST_POINTS)  # a hot path: mostly it is not due yet

    def start(self):
        if self.alive:
            guarded(self.begin, sys._getframe(1))

    def begin(self, frame):
        if self.point.kind != "trace" and not self.point.due():
            return
        self.point.entered(frame)
        tree = self.point.calls.get(_thread.get_ident())
        if tree is not None and tree.frame is frame and sys.getprofile() is None:
            sys.setprofile(Profile(tree))

    def leave(self, value):
        if self.alive:
            guarded(self.finish, sys._getframe(1), value)
        return value

    def finish(self, frame, value):
        tree = self.point.calls.get(_thread.get_ident())
        if tree is not None and tree.frame is frame and isinstance(sys.getprofile(), Profile):
            sys.setprofile(None)
        self.point.left(frame, value)


def nothing():
    """In place of a hit, in calls that run on after the point was removed."""


class Profile(object):
    def __init__(self, tree):
        self.tree = tree

    def __call__(self, frame, event, argument):
        if frame.f_globals is globals() or frame is self.tree.frame or _thread.get_ident() in inside:
            return
        if event == "call":
            self.tree.enter(frame.f_code)
        elif event == "return":
            self.tree.leave()


def constant(marker):
    return _ast.Constant(marker, None) if sys.version_info >= (3, 8) else _ast.Bytes(marker)


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


def insert(definition, point, marker):
    if point.kind == "log":
        line = point.line or definition.body[0].lineno
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
                none = _ast.NameConstant(None) if sys.version_info < (3, 8) else _ast.Constant(None, None)
                none.lineno = none.end_lineno = node.lineno
                none.col_offset = none.end_col_offset = node.col_offset
                node.value = call_of(marker, "leave", [node.value or none], node)
    last = definition.body[-1]
    end = call_of(marker, "leave", [], last)
    none = _ast.NameConstant(None) if sys.version_info < (3, 8) else _ast.Constant(None, None)
    none.lineno = none.end_lineno = last.lineno
    none.col_offset = none.end_col_offset = last.col_offset
    end.args.append(none)
    definition.body.append(statement(end))
    definition.body.insert(0, statement(call_of(marker, "start", [], definition.body[0])))


def with_constants(code, constants):
    if hasattr(code, "replace"):
        return code.replace(co_consts=constants)
    return CODE(
        code.co_argcount, code.co_kwonlyargcount, code.co_nlocals, code.co_stacksize, code.co_flags,
        code.co_code, constants, code.co_names, code.co_varnames, code.co_filename, code.co_name,
        code.co_firstlineno, code.co_lnotab, code.co_freevars, code.co_cellvars,
    )  # fmt: skip


class Rewriting(object):
    def __init__(self):
        self.originals = {}  # id of a function → (function, its own code, its code now)
        self.hooks = {}  # number of a point → Hook
        self.traced = {}  # frames that are under way: id → (frame, old f_trace, points)

    def compiled(self, code, some_points):
        """The code of a function with the calls in it."""
        with open(code.co_filename, "rb") as file:
            source = file.read()
        tree = compile(source, code.co_filename, "exec", ONLY_AST)
        definition = find_definition(tree, code)
        for number, point in sorted(some_points, key=lambda item: item[1].kind == "log"):
            insert(definition, point, b"probing point %d" % number)
        module = compile(tree, code.co_filename, "exec", 0, True)
        for each in nested(module):
            if each.co_name == code.co_name and each.co_firstlineno == code.co_firstlineno:
                return each
        raise Refused("%s is not found in %s any more" % (code.co_name, code.co_filename))

    def refresh(self, code):
        """Gives all functions with this code the calls that its points need."""
        wanted = [(n, p) for n, p in points.items() if any(each is code for each in p.codes)]
        if wanted:
            plain = self.compiled(code, [])
            if (
                plain.co_code != code.co_code
                or plain.co_names != code.co_names
                or plain.co_varnames != code.co_varnames
            ):
                raise Refused("%s differs from the code that runs: was it changed since?" % code.co_filename)
            new = self.compiled(code, wanted)
            if new.co_freevars != code.co_freevars:
                raise Refused("%s() cannot be watched" % code.co_name)
            known = {b"probing point %d" % number: self.hooks[number] for number, _ in wanted}
            new = with_constants(
                new, tuple(known.get(each, each) if type(each) is bytes else each for each in new.co_consts)
            )
        functions = [entry[0] for entry in self.originals.values() if entry[1] is code]
        functions += [f for f in referrers([code]) if type(f) is FUNCTION and f.__code__ is code]
        for function in functions:
            known_entry = self.originals.get(id(function))
            if known_entry is not None and function.__code__ is not known_entry[2]:
                continue  # somebody else has changed it meanwhile
            if wanted:
                function.__code__ = new
                self.originals[id(function)] = (function, code, new)
            else:
                function.__code__ = code
                self.originals.pop(id(function), None)
        return functions

    def add(self, number, point):
        for code in point.codes:
            for _, original, current in self.originals.values():
                if current is code:
                    point.codes[point.codes.index(code)] = original
        set_when_due(hit_point)
        gate_slot(number % MOST_POINTS, point.codes[0], 0, int(1e9 / point.rate))
        self.hooks[number] = Hook(number, point)
        del point.codes[1:]
        try:
            changed = self.refresh(point.codes[0])
        except BaseException:
            self.close(number)
            raise
        running = self.trace_running(point) if point.kind == "log" else 0
        if running:
            return "it runs now: until that call returns its thread is traced, which costs every call there"
        if not changed:
            raise Refused(
                "%s() is not reachable as a function; it can be watched from Python 3.12 on" % point.place
            )
        return ""

    def trace_running(self, point):
        count = 0
        for ident in list(sys._current_frames()):
            if ident == _thread.get_ident():
                continue
            frames = stack_of(ident)
            mine = [frame for frame in frames if frame.f_code is point.codes[0]]
            if mine and trace_thread(frames[0], Running.call):
                for frame in mine:
                    frame.f_trace = Running(point)
                    count += 1
        return count

    def close(self, number):
        hook = self.hooks.pop(number, None)
        if hook is not None:
            hook.alive = False
            hook.hit = nothing
        gate_slot(number % MOST_POINTS, None, 0, 0)

    def remove(self, number, point):
        self.close(number)
        points.pop(number, None)
        point.line = -1  # what is traced stops by itself
        for code in point.codes:
            self.refresh(code)
        for ident in list(sys._current_frames()):
            for frame in stack_of(ident):
                if isinstance(frame.f_trace, Running) and frame.f_trace.point is point:
                    frame.f_trace = None
                    trace_thread(stack_of(ident)[0], None)

    def end(self):
        for number, point in list(points.items()):
            self.remove(number, point)
        set_when_due(None)


class Running(object):
    """The trace function of a call that was under way."""

    def __init__(self, point):
        self.point = point

    @staticmethod
    def call(frame, event, argument):
        return None

    def __call__(self, frame, event, argument):
        if event == "line" and frame.f_lineno == self.point.line and self.point.due():
            guarded(self.point.hit, frame)
        if event == "return" or self.point.line == -1:
            sys.settrace(None)
            return None
        return self
