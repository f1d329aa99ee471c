# `probing script`: somebody's diagnostic script in the target, apart from the job. Its names are its own, and
# what it is the first to import is taken out of sys.modules again. Python 3.6 syntax.
import _thread
import sys


class Imports(object):
    """Stands first in sys.meta_path and finds nothing: it notes what this thread looks for."""

    def __init__(self):
        self.owner = _thread.get_ident()
        self.names = []

    def find_spec(self, name, path=None, target=None):
        if _thread.get_ident() == self.owner:
            self.names.append(name)

    def find_module(self, name, path=None):  # only before 3.12
        return None


def is_native(module):
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and file.endswith((".so", ".abi3.so"))


def forget(names):
    """Modules with native code stay: most of them cannot be loaded twice. Returns their packages."""
    new = [name for name in names if name in sys.modules]
    native = {name.split(".")[0] for name in new if is_native(sys.modules[name])}
    for name in new:
        if name.split(".")[0] not in native:
            del sys.modules[name]
    return sorted(native)


def talk_script(source, options):
    """Runs a whole file; options["arguments"] is its name and its arguments, separated by tabs."""
    arguments = options.get("arguments", "script").split("\t")
    names = {
        "__name__": "__probing_script__",
        "__file__": arguments[0],
        "__builtins__": __builtins__,
        "argv": arguments,
        "main": sys.modules.get("__main__"),
    }
    code = compile(source, arguments[0], "exec", 0, True)
    before = set(sys.modules)
    imports = Imports()
    sys.meta_path.insert(0, imports)
    try:
        exec(code, names)
    finally:
        sys.meta_path.remove(imports)
        kept = forget([name for name in imports.names if name not in before])
        if kept:
            sys.stderr.write("probing: stays imported, because it has native code: %s\n" % ", ".join(kept))
