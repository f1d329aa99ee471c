# ruff: noqa: F821  live.py comes before this file.
# python.modules and python.tensors: what of PyTorch is alive. Runs in the target, on a thread of the
# probe; looks at every object the collector knows. Python 3.6 syntax, built-in modules only.
import gc
import sys

MOST_LISTED = 100000  # entries of one container that are looked through for a tensor


def torch_module():
    """torch when the job has imported it, all of it."""
    torch = sys.modules.get("torch")
    spec = getattr(torch, "__spec__", None)
    return None if torch is None or getattr(spec, "_initializing", False) else torch


def named_modules(torch):
    """(path, module) of all modules; those that no other one contains are called by their class."""
    modules = living_of(torch.nn.Module)
    inner = set()
    for module in modules:
        inner.update(id(child) for child in vars(module).get("_modules", {}).values())
    seen = set()
    for root in [module for module in modules if id(module) not in inner]:
        for path, module in root.named_modules():
            if id(module) not in seen:
                seen.add(id(module))
                yield path or type(root).__name__, module


def own_tensors(module):
    for kind in ("_parameters", "_buffers"):
        for name, tensor in vars(module).get(kind, {}).items():
            if tensor is not None:
                yield kind, name, tensor


def bytes_of(tensor):
    try:
        return tensor.untyped_storage().nbytes()
    except Exception:  # older torch; meta and sparse tensors
        return tensor.element_size() * tensor.numel()


def modules_table(wanted):
    torch = torch_module()
    for path, module in named_modules(torch) if torch is not None else ():
        tensors = list(own_tensors(module))
        parameters = [tensor for kind, _, tensor in tensors if kind == "_parameters"]
        first = parameters[0] if parameters else None
        yield {
            "name": path,
            "type": type(module).__name__,
            "parameters": sum(one.numel() for one in parameters),
            "bytes": sum(one.element_size() * one.numel() for _, _, one in tensors),
            "device": str(first.device) if first is not None else None,
            "dtype": str(first.dtype).replace("torch.", "") if first is not None else None,
            "training": vars(module).get("training"),
        }


def describe_holder(holder):
    code = getattr(holder, "f_code", None)
    if code is not None:
        return "frame %s" % code.co_name
    if isinstance(holder, (list, tuple, dict, set)):
        return "%s of %d" % (type(holder).__name__, len(holder))
    return type(holder).__name__


def holders(tensors):
    """id of a tensor → (name, holder), as far as one look at all objects tells."""
    found, ids = {}, {id(one) for one in tensors}
    for holder in referrers(tensors):
        if holder is tensors or is_ours(holder):
            continue
        if isinstance(holder, dict):
            pairs = list(holder.items())[:MOST_LISTED]
        elif isinstance(holder, (list, tuple)):
            pairs = [("[%d]" % i, one) for i, one in enumerate(holder[:MOST_LISTED])]
        else:
            pairs = [(None, one) for one in gc.get_referents(holder)]
        for name, one in pairs:
            if id(one) in ids:
                known = isinstance(name, str) and not name.startswith("[")
                found.setdefault(id(one), (name if known else None, describe_holder(holder)))
    return found


def grad_norm(tensor):
    grad = tensor.grad if tensor.is_leaf else None
    return None if grad is None else float(grad.detach().float().norm())


def count_nonfinite(torch, tensor):
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return 0
    return int(tensor.numel() - torch.isfinite(tensor.detach()).sum())


def tensors_table(wanted):
    torch = torch_module()
    if torch is None:
        return
    tensors = living_of(torch.Tensor)
    names = {}
    if "name" in wanted or "holder" in wanted:
        names = holders(tensors)
        for path, module in named_modules(torch):
            for _, name, tensor in own_tensors(module):
                names[id(tensor)] = ("%s.%s" % (path, name), type(module).__name__)
    for tensor in tensors:
        name, holder = names.get(id(tensor), (None, None))
        try:
            yield {
                "name": name,
                "shape": str(list(tensor.shape)),
                "dtype": str(tensor.dtype).replace("torch.", ""),
                "device": str(tensor.device),
                "bytes": bytes_of(tensor),
                "requires_grad": tensor.requires_grad,
                "grad_norm": grad_norm(tensor) if "grad_norm" in wanted else None,
                "nonfinite": count_nonfinite(torch, tensor) if "nonfinite" in wanted else None,
                "holder": holder,
            }
        except Exception:
            continue  # a class of the job's own that does not answer


TABLES["python.modules"] = modules_table
TABLES["python.tensors"] = tensors_table
