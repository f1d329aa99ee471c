# Which module tensors come from. Runs in the target, on a thread of the probe. Python 3.6 syntax, built-in
# modules only.
from ..core.still import NotStill, loaded_torch, read_still
from .lent import lent
from .live_torch import named_modules, own_tensors

MOST_NODES = 200  # of a graph that are looked at
MOST_ASKED = 20000  # tensors of a kind, the youngest first: between two looks of the census are many steps
ENOUGH = 200  # that are known


def made_in(refs, pace):
    """The path of the module that returned most of those of which it is known; else "after PATH" of the
    nearest module whose parameters are in the graph of the last one; else None."""
    known, paths = dict(lent["birthplaces"]), {}
    for reference in reversed(refs[-MOST_ASKED:] if known else ()):
        tensor = reference()
        try:
            shape, dtype, path = known[tensor.data_ptr()]
        except Exception:
            continue
        if shape == tensor.shape and dtype == tensor.dtype:
            paths[path] = paths.get(path, 0) + 1
            if paths[path] >= ENOUGH:
                break
        if not pace.breathe():
            break
    if paths:
        return max(sorted(paths), key=paths.get)
    torch = loaded_torch()
    try:
        with torch._C.DisableTorchFunction():
            node = read_still(torch.Tensor.grad_fn.__get__, (refs[-1](),), pace.until)
        path = nearest_module(node, pace)
    except NotStill as error:
        pace.stop(str(error))
        return None
    except Exception:
        return None  # gone meanwhile
    return None if path is None else "after " + path


def nearest_module(node, pace):
    """From a node of autograd back to a parameter, nearest first; the path of its module, or None."""
    if node is None:
        return None
    owners = {}
    for path, module in named_modules(loaded_torch(), pace):
        for kind, _, tensor in own_tensors(module):
            if kind == "_parameters":
                owners[id(tensor)] = path
    nodes, seen = [node], {id(node)}
    for node in nodes:  # which grows meanwhile
        path = owners.get(id(getattr(node, "variable", None)))
        if path is not None:
            return path
        for following, _ in getattr(node, "next_functions", ()):
            if following is not None and id(following) not in seen and len(nodes) < MOST_NODES:
                seen.add(id(following))
                nodes.append(following)
    return None
