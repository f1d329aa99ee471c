# What makes the files in src/embedded modules: each has a namespace of its own, which no module of the job
# refers to and sys.modules does not have. In the library `from .heap import Pace` becomes a call of
# own_import() (CMakeLists.txt); C++ code has loaded what stands at the top of a file before (embedded.h).
# Runs in the target. Python 3.6 syntax, built-in modules only.

modules = {}  # name → namespace of those that are loaded; filled by C++ code
lasting = []  # classes whose objects the job may still call when we have gone
spare = []  # classes that no namespace has any more
keepers = []  # functions that tell whether code of the job may need us when we have gone


def own_import(names, module, wanted):
    """Puts names of a module into another's namespace; `wanted` is what stands behind `import`."""
    found = modules.get(module)
    if found is None:
        modules["native"]["load_module"](module)
        found = modules[module]
    for part in wanted.split(","):
        name = part.strip()
        if name and name not in found:
            raise ImportError("the probe's own %s has no %s" % (module, name))
        if name:
            names[name] = found[name]


def is_own(names):
    """Whether this is the namespace of one of these modules, as the code you are reading has one."""
    return isinstance(names, dict) and dict.get(names, "own_import") is own_import


def own_classes():
    """Before we go: the classes that nobody will use any more, for embedded.cc. None when code that somebody
    typed, or a debugger, may have left something in the job that needs us."""
    if any(keeps() for keeps in keepers):
        return None
    found = {id(each): each for each in spare}
    for names in modules.values():
        for each in names.values():
            if type(each) is type and each.__module__ == __name__ and each not in lasting:
                found[id(each)] = each
    return tuple(found.values())


def drop_functions():
    """Before we go: no namespace that stays has a function of the library."""
    for names in modules.values():
        for name, value in list(names.items()):
            if type(value) is type(len) and type(value.__self__).__name__ == "PyCapsule":
                names[name] = None
