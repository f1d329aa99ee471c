"""A stand-in for PyTorch: the few names that the tracer touches, and a GPU that nobody has.

Modules are called, autograd runs back through nodes with hooks, optimizers have theirs, and work on
the "GPU" takes virtual time: it is queued by the CPU, and done when somebody waits. Python 3.6 syntax.
"""

import collections
import sys
import types


def submodule(name):
    module = types.ModuleType("torch." + name)
    sys.modules[module.__name__] = module
    owner, _, last = module.__name__.rpartition(".")
    setattr(sys.modules[owner], last, module)
    return module


nn = submodule("nn")
submodule("nn.modules")
module_file = submodule("nn.modules.module")
optim = submodule("optim")
optimizer_file = submodule("optim.optimizer")
autograd = submodule("autograd")
cuda = submodule("cuda")
work = [0.0]  # seconds that the CPU does for a module
grad = [True]


def is_grad_enabled():
    return grad[0]


# ── the GPU ──────────────────────────────────────────────────────────────────────────────────

gpu = {"initialized": False, "queued_ms": 0.0, "done_ms": 0.0, "capturing": False, "asked": 0, "events": 0}


class Event(object):
    def __init__(self, enable_timing=False):
        gpu["events"] += 1

    def record(self):
        assert not gpu["capturing"], "nothing may be recorded during a capture"
        self.at_ms = gpu["queued_ms"]

    def query(self):
        gpu["asked"] += 1
        return gpu["done_ms"] >= self.at_ms

    def elapsed_time(self, other):
        assert self.query() and other.query(), "both must have happened"
        return other.at_ms - self.at_ms

    def synchronize(self):
        raise AssertionError("nobody may wait for the GPU")


def memory_stats_as_nested_dict(device):
    allocated = {"current": 3 << 20, "peak": 5 << 20}
    return {"allocated_bytes": {"all": allocated}, "reserved_bytes": {"all": {"current": 8 << 20}}}


cuda.Event = Event
cuda.is_initialized = lambda: gpu["initialized"]
cuda.is_current_stream_capturing = lambda: gpu["capturing"]
cuda.memory_stats_as_nested_dict = memory_stats_as_nested_dict


# ── tensors and autograd ─────────────────────────────────────────────────────────────────────


class Handle(object):
    def __init__(self, hooks):
        import weakref

        self.hooks_dict_ref, self.key = weakref.ref(hooks), len(hooks)

    def remove(self):
        hooks = self.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self.key, None)


class Node(object):
    def __init__(self, before, gpu_ms):
        self.before, self.gpu_ms, self.hooks = before, gpu_ms, None

    def register_prehook(self, hook):
        if self.hooks is None:
            self.hooks = collections.OrderedDict()
        handle = Handle(self.hooks)
        self.hooks[handle.key] = hook
        return handle


class Counts(list):
    """What is counted on the GPU: there when the GPU has come so far."""

    def to(self, device, non_blocking=False):
        assert device == "cpu" and non_blocking, "nobody may wait for the GPU"
        self.at_ms = gpu["queued_ms"]
        return self

    def tolist(self):
        assert gpu["done_ms"] >= self.at_ms, "too early"
        return list(self)


class Tensor(object):
    shape = (4,)

    def __init__(self, grad_fn=None, nans=0):
        self.grad_fn, self.is_cuda, self.nans = grad_fn, gpu["initialized"], nans

    def is_floating_point(self):
        return True

    def numel(self):
        return 4

    def detach(self):
        return self

    def sum(self):
        return self.nans

    def all(self):
        return self.nans == 0

    def get_device(self):
        return 0

    def backward(self):
        autograd.backward(self)


class Parameter(Tensor):
    pass


def isnan(tensor):
    return tensor


def isfinite(tensor):
    return tensor


def isinf(tensor):
    return Tensor()


def stack(tensors):
    return Counts(tensors)


def backward(tensor):
    node = tensor.grad_fn
    while node is not None:
        for hook in list((node.hooks or {}).values()):
            assert hook(()) is None
        gpu["queued_ms"] += 2 * node.gpu_ms
        node = node.before


autograd.backward = backward

# ── modules ──────────────────────────────────────────────────────────────────────────────────


class Module(object):
    def __init__(self, **inner):
        self._modules, self.training = inner, True

    def _call_impl(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    __call__ = _call_impl

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, inner in self._modules.items():
            for pair in inner.named_modules(prefix + ("." if prefix else "") + name):
                yield pair


class Linear(Module):
    gpu_ms = 1.0
    nans = 0  # in what it returns

    def forward(self, x):
        gpu["queued_ms"] += self.gpu_ms
        return Tensor(Node(x.grad_fn, self.gpu_ms), self.nans)


class Sequential(Module):
    def forward(self, x):
        for inner in self._modules.values():
            x = inner(x)
        return x


nn.Module = module_file.Module = Module
nn.Linear, nn.Sequential, nn.Parameter = Linear, Sequential, Parameter

# ── optimizers ───────────────────────────────────────────────────────────────────────────────

optimizer_file._global_optimizer_pre_hooks = collections.OrderedDict()
optimizer_file._global_optimizer_post_hooks = collections.OrderedDict()


class Optimizer(object):
    def __init__(self):
        self.state, self.param_groups = {}, []

    def step(self):
        for hook in optimizer_file._global_optimizer_pre_hooks.values():
            hook(self, (self,), {})
        for hook in optimizer_file._global_optimizer_post_hooks.values():
            hook(self, (self,), {})


class SGD(Optimizer):
    pass


optim.SGD, optimizer_file.Optimizer = SGD, Optimizer
