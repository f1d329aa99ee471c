# python.modules and python.tensors: what of PyTorch is alive. Runs in the target, on a thread of the
# probe; looks at every object the collector knows. Python 3.6 syntax, built-in modules only.
import gc

from ..core.heap import each_referrer, paces, weakly_living
from ..core.still import NotStill, loaded_torch, read_still, sums_of
from .holders import is_ours


def named_modules(torch, pace):
    """(path, module) of all modules; those that no other one contains are called by their class."""
    modules = [one for one in [one() for one in weakly_living((torch.nn.Module,), pace)] if one is not None]
    inner = set()
    for module in modules:
        inner.update(id(child) for child in vars(module).get("_modules", {}).values())
    seen = set()
    for root in [module for module in modules if id(module) not in inner]:
        for path, module in root.named_modules():
            if id(module) not in seen:
                seen.add(id(module))
                yield path or type(root).__name__, module
        if not pace.breathe():
            return


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
    torch, pace = loaded_torch(), paces[-1]
    for path, module in named_modules(torch, pace) if torch is not None else ():
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


def holders(addresses, pace):
    """address of a tensor → (name, holder), by one walk for all of them, and one more for what is in
    tuples."""
    found, tuples = {}, {}

    def note(holder, address, key):
        if type(holder) is int:
            tuples.setdefault(holder, set()).add(address)
        elif address not in found and not is_ours(holder):
            found[address] = key, describe_holder(holder)

    def again():
        found.clear()
        tuples.clear()

    each_referrer(addresses, pace, note, again)
    in_tuples = {one: own - set(found) for one, own in tuples.items() if own - set(found)}

    def note_tuple(holder, address, key):
        for one in in_tuples[address] if type(holder) is not int and not is_ours(holder) else ():
            found.setdefault(one, (key, describe_holder(holder)))

    if in_tuples and not pace.is_over():
        each_referrer(list(in_tuples), pace, note_tuple, gc.isenabled)
    return found


def is_own_class(torch, tensor):
    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def norm_of_gradient(torch, tensor, pace):
    """None when there is none; NotStill when no moment came in which it could be read."""
    getter = torch.Tensor.grad.__get__
    if not tensor.is_leaf:
        return None
    if is_own_class(torch, tensor) and tensor.is_cpu:
        sums = sums_of(torch, tensor, getter, pace.until, pace.breathe)
        if sums is not None:
            return sums.squares**0.5
    with torch._C.DisableTorchFunction():  # on a device, or of a type that is not known: torch computes
        gradient = read_still(getter, (tensor,), pace.until)
    return None if gradient is None else float(gradient.detach().float().norm())


def count_nonfinite(torch, tensor, pace):
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        return 0
    if is_own_class(torch, tensor) and tensor.is_cpu:
        sums = sums_of(torch, tensor, None, pace.until, pace.breathe)
        if sums is not None:
            return sums.nonfinite
    return int(tensor.numel() - torch.isfinite(tensor.detach()).sum())


def look_at_numbers(function, torch, tensor, pace):
    """NULL, and a note, when there is no time or no moment for it."""
    if pace.is_over():
        pace.stop("the time limit was reached")
        return None
    try:
        return function(torch, tensor, pace)
    except NotStill as error:
        pace.stop(str(error))
    except Exception:
        pass  # a class of the job's own that does not answer
    return None


def names_of(torch, refs, pace):
    """address of a tensor → (name, holder); a module's own name is the better one."""
    names = holders({id(one()) for one in refs} - {id(None)}, pace)
    for path, module in named_modules(torch, pace):
        for _, name, tensor in own_tensors(module):
            names[id(tensor)] = ("%s.%s" % (path, name), type(module).__name__)
    return names


def tensors_table(wanted):
    torch, pace = loaded_torch(), paces[-1]
    if torch is None:
        return
    refs = weakly_living((torch.Tensor,), pace)
    names = names_of(torch, refs, pace) if "name" in wanted or "holder" in wanted else {}
    for reference in refs:
        tensor = reference()
        if tensor is None:
            continue  # gone meanwhile
        name, holder = names.get(id(tensor), (None, None))
        try:
            row = {
                "name": name,
                "shape": str(list(tensor.shape)),
                "dtype": str(tensor.dtype).replace("torch.", ""),
                "device": str(tensor.device),
                "bytes": bytes_of(tensor),
                "requires_grad": tensor.requires_grad,
                "holder": holder,
            }
        except Exception:
            continue  # a class of the job's own that does not answer
        for column, function in (("grad_norm", norm_of_gradient), ("nonfinite", count_nonfinite)):
            row[column] = look_at_numbers(function, torch, tensor, pace) if column in wanted else None
        del tensor
        yield row
