# Hangs the tracer into PyTorch, once the job has imported it, and takes it out again. Runs in the
# target with the GIL. Python 3.6 syntax, built-in modules only; torch is looked at, never imported.
import sys

from ..core.wraps import put_back, undo
from ..native import (
    optimizer_begins,
    optimizer_ended,
    torch_around,
    torch_possible,
    torch_says,
    torch_start,
    torch_stop,
    torch_wrap_backward,
)
from .census import censuses, start_census, stop_census
from .collectives import find_collectives, stop_collectives
from .exprs import expr_state, find_expr_places, start_exprs, stop_exprs
from .frameworks import find_frameworks, generates, is_trained, is_updated, note_optimizer, stop_frameworks
from .module_names import module_refs, name_modules, torch_options, walked
from .nonfinite import start_nonfinite
from .saves import find_saves, stop_saves

RUNNING = "torch"  # what put_back() is told
RATE = 0.05  # of the steps, unless the setting has one; of short ones fewer (torch/sampling.h)

torch_running = []  # the torch module that is traced


def read_spec(spec):
    """The setting's text, which was checked, as a dict: {"mode": "on", "rate": 0.05, "exprs": […], …}."""
    items = spec.split(",")
    options = {"mode": items[0], "rate": "", "backward": "on", "collectives": "on", "nan": "off"}
    options["census"] = "off"
    key = None
    for item in items[1:]:
        if "=" in item:
            key, item = item.split("=", 1)
            options[key] = [] if key in ("modules", "exprs") else item
        if isinstance(options[key], list):
            options[key].append(item)
    return options


# ── what the tracer asks ─────────────────────────────────────────────────────────────────────


def on_sampled():
    """A step begins that is traced in full. Tells whether there is a GPU to ask."""
    walked.clear()
    for census in censuses:
        census.step_begins()
    cuda = getattr(torch_running[0], "cuda", None)
    return cuda is not None and cuda.is_initialized()


def gpu_memory(device):
    stats = torch_running[0].cuda.memory_stats_as_nested_dict(device)
    allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
    return allocated["current"] / 1048576.0, allocated["peak"] / 1048576.0, reserved["current"] / 1048576.0


def first_step(optimizer):
    """How many steps an optimizer has made, where it counts them on the CPU."""
    for state in optimizer.state.values():
        step = state.get("step")
        device = getattr(step, "device", None)
        if step is None or device is not None and device.type != "cpu":
            return None
        return int(step)
    return None


def both(first, second):
    """One function that calls two, of which each may be None, and returns what the second one does."""
    if first is None or second is None:
        return second if first is None else first

    def call(*args):
        first(*args)
        return second(*args)

    return call


def make_carrier(torch):
    """An empty tensor for torch/nodes.h. Where the job changes what making a tensor means, there is none."""
    try:
        with torch._C.DisableTorchFunction():
            carrier = torch.empty(0, device="cpu")
    except Exception:
        return None
    return carrier if type(carrier) is torch.Tensor else None


# ── hanging it in ────────────────────────────────────────────────────────────────────────────


def around_backward(autograd):
    """By a function of ours, which costs a fifth of what one in Python does: around what all of autograd's
    own functions call, or where a torch has none, around these."""
    names = ["_engine_run_backward"] if "_engine_run_backward" in vars(autograd) else ["backward", "grad"]
    for name in names:
        original = vars(autograd).get(name)
        if original is None:
            continue
        wrapper = torch_wrap_backward(original, read_spec)
        if wrapper is None:
            return torch_says("torch.autograd.%s is no plain function: backward passes are not timed" % name)
        setattr(autograd, name, wrapper)
        undo.setdefault(RUNNING, []).append((autograd, name, wrapper, original))


OPTIMIZER_HOOKS = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")


def hook_optimizers(module):
    """Into the dicts of hooks that every step of an optimizer goes through. A thread may be going
    through them now, and must not see them change: other hooks stay in a dict that is left alone."""
    for name, function in zip(OPTIMIZER_HOOKS, (optimizer_begins, optimizer_ended)):
        hooks = vars(module).get(name)
        if not isinstance(hooks, dict):
            return False
        if hooks and "probing" not in hooks:
            hooks = hooks.copy()
            setattr(module, name, hooks)
        hooks["probing"] = function
    return True


def unhook_optimizers(module):
    for name in OPTIMIZER_HOOKS:
        hooks = vars(module).get(name)
        if not isinstance(hooks, dict) or "probing" not in hooks:
            continue
        if len(hooks) == 1:
            setattr(module, name, type(hooks)())
        else:
            hooks["probing"] = eval("lambda *_: None", {})  # a value may change, the keys must not


def start_torch(torch):
    options = torch_options
    modules, optimizers = sys.modules.get("torch.nn.modules.module"), sys.modules.get("torch.optim.optimizer")
    if modules is None or optimizers is None:
        return False
    cuda, parameter = getattr(torch, "cuda", None), getattr(torch.nn, "Parameter", None)
    check_output, check_gradients = start_nonfinite(torch, options["nan"])
    note_output, take_census = start_census(torch, options["census"], options["max_overhead"])
    functions = (
        name_modules,
        on_sampled,
        both(start_exprs(options.get("exprs", [])), take_census),
        first_step,
        getattr(torch, "is_grad_enabled", None),
        torch.Tensor,
        parameter,
        (lambda new=cuda.Event: new(enable_timing=True)) if cuda is not None else None,
        getattr(cuda, "is_current_stream_capturing", None),
        gpu_memory,
        both(check_output, note_output),
        check_gradients,
        make_carrier(torch),
        is_trained,
        is_updated,
        generates,
        note_optimizer,
    )
    torch_running.append(torch)
    started = torch_start(
        float(options["rate"] or RATE),
        not options["rate"],
        options["max_overhead"],
        options["mode"] == "on",
        options["backward"] == "on",
        options["nan"] == "on",
        functions,
    )
    if not started:
        del torch_running[:]
        stop_census()
        return False
    if not hook_optimizers(optimizers):
        torch_says("this torch has no hooks for optimizers: only probing.step() tells what a step is")
    if expr_state.get("no_place"):
        torch_says("exprs at a line need a tool's number of sys.monitoring, and others have all of them")
    around_backward(torch.autograd)
    if not torch_around("call", vars(modules.Module)["__call__"], read_spec):
        torch_says("somebody has replaced nn.Module.__call__: modules are not traced")
    return True


def stop_torch():
    if not torch_running:
        return
    torch_stop()
    del torch_running[:]
    put_back(RUNNING)
    optimizers = sys.modules.get("torch.optim.optimizer")
    if optimizers is not None:
        unhook_optimizers(optimizers)
    stop_exprs()
    stop_collectives()
    stop_saves()
    stop_frameworks()
    stop_census()
    module_refs.clear()
    walked.clear()


def find_torch():
    """Starts once torch is imported. Returns whether an import seems to be under way."""
    torch = sys.modules.get("torch")
    if not torch_options or torch is None:
        return False
    if getattr(getattr(torch, "__spec__", None), "_initializing", False):
        return True
    if not torch_running and not start_torch(torch):
        return True
    loader = sys.modules.get("torch.utils.data.dataloader")
    iterator = vars(loader).get("_BaseDataLoaderIter") if loader is not None else None
    if iterator is not None:
        torch_around("next", vars(iterator)["__next__"], read_spec)
    if torch_options["collectives"] == "on":
        find_collectives()
    find_saves()
    find_frameworks()
    return find_expr_places()


def configure_torch(spec, max_overhead):
    """As the setting says: "off", or what read_spec() reads."""
    wanted = {}
    if spec != "off" and torch_possible:
        wanted = read_spec(spec)
        wanted["max_overhead"] = float(max_overhead.rstrip("%")) / 100
    if wanted == torch_options:
        return
    stop_torch()
    torch_options.clear()
    torch_options.update(wanted)
