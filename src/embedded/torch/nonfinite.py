# nan=on: where a NaN or an infinity is seen first. Outputs of models in every step, of all their modules as
# long as that takes less than a tenth of the time, and in the steps that are traced in full (the next one is,
# when something is seen), gradients before every step of an optimizer. One step later all parameters are NaN,
# and with them the outputs of all modules: only what is seen first tells the origin. Runs in the target.
# Python 3.6 syntax, built-in modules only.
#
# Numbers on a GPU are counted there and fetched when that is done, by the calls of later modules; nothing
# waits for it.
from ..core.kinds import tensors_in
from ..native import table, torch_looks_at_all, torch_step, torch_trace_next
from .module_names import module_refs, name_modules

MOST_WAITING = 64  # counts that a GPU has not come to
MOST_SEEN = 10000  # places: more are not written down


class Nonfinite(object):
    def __init__(self, torch):
        self.torch, self.append = torch, table("python.nonfinite")
        self.seen = set()  # (stage, id of what) that needs no second look
        self.waiting = []  # (event, counts, what to write)

    def on_output(self, module, result):
        key = ("forward", id(module))
        if key[1] not in module_refs:
            name_modules(module, module)  # before counts are fetched: a part of it may get its whole name now
        self.fetch()
        if key in self.seen:
            return
        for tensor in tensors_in(self.torch, result):
            self.look(key, tensor, type(module).__name__)

    def on_gradients(self, optimizer):
        self.fetch()
        if not module_refs:
            return  # no model was called yet: nothing has a name
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                key = ("gradient", id(parameter))
                if parameter.grad is not None and key not in self.seen:
                    self.look(key, parameter.grad, None)

    def look(self, key, tensor, kind):
        torch = self.torch
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return
        if tensor.is_cuda and (torch.cuda.is_current_stream_capturing() or len(self.waiting) >= MOST_WAITING):
            return
        numbers = tensor.detach()
        if not tensor.is_cuda:
            # One pass over the numbers instead of five. The sum of large ones may be infinite as well.
            total = 0.0 if tensor.is_complex() else float(numbers.sum())
            if (total - total == 0 and not tensor.is_complex()) or bool(torch.isfinite(numbers).all()):
                return
        counts = torch.stack((torch.isnan(numbers).sum(), torch.isinf(numbers).sum()))
        row = (key, torch_step(), kind, tensor.numel(), repr(list(tensor.shape)), torch_looks_at_all())
        if not tensor.is_cuda:
            return self.write(counts.tolist(), *row)
        event = torch.cuda.Event()
        counts = counts.to("cpu", non_blocking=True)
        event.record()
        self.waiting.append((event, counts, row))

    def fetch(self):
        while self.waiting and self.waiting[0][0].query():
            _, counts, row = self.waiting.pop(0)
            self.write(counts.tolist(), *row)

    def write(self, counts, key, step, kind, numbers, shape, all_seen):
        (nans, infs), (stage, owner) = counts, key
        if nans + infs == 0 or key in self.seen or len(self.seen) >= MOST_SEEN:
            return
        origin = not self.seen and all_seen and kind is not None and self.has_finite_parameters(owner)
        if not self.seen:
            torch_trace_next()  # in which module it is, if it comes again
        self.seen.add(key)
        path = path_of_parameter(owner) if kind is None else path_of_module(owner) or kind
        self.append(None, step, path, kind, stage, nans, infs, numbers, shape, origin)

    def has_finite_parameters(self, owner):
        module = module_refs[owner][0]() if owner in module_refs else None
        if module is None or not hasattr(module, "parameters"):
            return False
        on_cpu = [
            one.detach() for one in module.parameters() if not one.is_cuda
        ]  # others would have to be waited for
        return all(bool(self.torch.isfinite(one).all()) for one in on_cpu)


def path_of_module(key):
    return module_refs[key][1] if key in module_refs else None


def path_of_parameter(key):
    for reference, path, _ in list(module_refs.values()):
        for name, one in vars(reference() or Nonfinite).get("_parameters", {}).items():
            if id(one) == key:
                return "%s.%s" % (path, name)
    return None


def start_nonfinite(torch, wanted):
    """(on_output, on_gradients), or two times None."""
    if wanted != "on":
        return None, None
    checks = Nonfinite(torch)
    return checks.on_output, checks.on_gradients
