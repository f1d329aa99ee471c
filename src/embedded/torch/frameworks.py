# What frameworks around PyTorch know better than it: the job's own number of a step, and what an update of
# the parameters is. Runs in the target. Python 3.6 syntax, built-in modules only; nothing is imported.
import sys
from _weakref import ref

from ..core.wraps import live, put_back, undo
from ..native import pass_begins, pass_ended, torch_number_is, update_begins, update_ended

FRAMEWORKS = "frameworks"  # what put_back() is told
GENERATING = ("generate", "infer", "inference")  # functions that make use of a model
MOST_CALLERS = 16  # that are searched for one
MOST_PARAMETERS = 64  # of a module that are compared
LIGHTNING = ("lightning.pytorch.trainer.call", "pytorch_lightning.trainer.call")

parameter_ids = set()  # of what optimizers update
parameter_was = {}  # is_updated(): (weak reference to a parameter, its versions)


# ── what the tracer asks ─────────────────────────────────────────────────────────────────────


def note_optimizer(optimizer):
    for group in optimizer.param_groups:
        parameter_ids.update([id(one) for one in group["params"]])


def is_trained(module):
    """Whether an optimizer has parameters of it; where none is known, whether it has any to train."""
    for _, parameter in zip(range(MOST_PARAMETERS), module.parameters()):
        if id(parameter) in parameter_ids if parameter_ids else parameter.requires_grad:
            return True
    return False


def is_updated(module):
    """Whether the parameters were updated, or their gradients reset, since this was asked last: for jobs
    without an optimizer. Micro-batches that add to the gradients are not told apart from steps otherwise."""
    parameter = next((one for one in module.parameters() if one.requires_grad), None)
    if parameter is None:
        return True
    grad = parameter.grad
    now = parameter._version, None if grad is None else grad._version
    reference, was = parameter_was.get("first", (None, None))
    parameter_was["first"] = ref(parameter), now
    if reference is None:
        return False  # it was looked at for the first time: who knows
    if reference() is not parameter or now[0] != was[0] or now[1] is None:
        return True
    return was[1] is not None and now[1] >= was[1] + 2  # a backward pass adds to it once


def generates():
    frame = sys._getframe(1)
    for _ in range(MOST_CALLERS):
        if frame is None:
            return False
        if frame.f_code.co_name in GENERATING:
            return True
        frame = frame.f_back
    return False


# ── hanging it in ────────────────────────────────────────────────────────────────────────────


def wrap_around(original, before, after):
    """As wrap() of hooks.py, but what comes after does so when an exception passes, too."""
    shared = live

    def wrapper(*args, **kwargs):
        note, record = None, shared.get(before)
        if record is not None:
            try:
                note = record(*args, **kwargs)
            except Exception:
                pass
        try:
            return original(*args, **kwargs)
        finally:
            record = shared.get(after)
            if record is not None:
                try:
                    record(note, *args, **kwargs)
                except Exception:
                    pass

    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(wrapper, attribute, getattr(original, attribute, None))
    wrapper.__wrapped__ = original
    return wrapper


def loaded(name):
    module = sys.modules.get(name)
    if getattr(getattr(module, "__spec__", None), "_initializing", False):
        return None
    return module


def hang_around(module, owner, name, records):
    """Into a class, or into the module itself. `records`: what comes before and after."""
    found = loaded(module)
    place = found if owner is None else getattr(found, owner, None)
    original = None if place is None else vars(place).get(name)
    if not hasattr(original, "__code__"):
        return
    if any(entry[0] is place and entry[1] == name for entry in undo.setdefault(FRAMEWORKS, [])):
        return
    keys = ["%s.%s %s" % (module, name, when) for when in ("before", "after")]
    live.update((key, record) for key, record in zip(keys, records) if record is not None)
    wrapper = wrap_around(original, *keys)
    setattr(place, name, wrapper)
    undo[FRAMEWORKS].append((place, name, wrapper, original))


def make_records():
    """Functions that use no global of ours: a thread may be in one of them when we leave."""
    number_is, begins, ended = torch_number_is, update_begins, update_ended
    pass_is_on, pass_is_over = pass_begins, pass_ended

    def scaler_begins(scaler, optimizer, *args, **kwargs):
        begins()

    def scaler_ended(note, scaler, optimizer, *args, **kwargs):
        ended(optimizer, True)  # also when it has left out the step: an infinite gradient

    def engine_begins(engine, *args, **kwargs):
        number_is(engine.global_steps)
        begins()
        return engine.global_steps

    def engine_ended(before, engine, *args, **kwargs):
        ended(engine, engine.global_steps != before)  # not of each micro-batch

    def engine_goes_back(engine, *args, **kwargs):
        pass_is_on()  # gradients are scaled and reduced there, too

    def engine_went_back(note, engine, *args, **kwargs):
        pass_is_over()

    def huggingface_step(handler, args, state, control, *more, **kwargs):
        number_is(state.global_step)

    def lightning_calls(trainer, hook, *args, **kwargs):
        if hook == "on_train_batch_start":
            number_is(trainer.global_step)

    return {
        ("torch.amp.grad_scaler", "GradScaler", "step"): (scaler_begins, scaler_ended),
        ("deepspeed.runtime.engine", "DeepSpeedEngine", "step"): (engine_begins, engine_ended),
        ("deepspeed.runtime.engine", "DeepSpeedEngine", "backward"): (engine_goes_back, engine_went_back),
        ("transformers.trainer_callback", "CallbackHandler", "on_step_begin"): (huggingface_step, None),
        (LIGHTNING[0], None, "_call_callback_hooks"): (lightning_calls, None),
        (LIGHTNING[1], None, "_call_callback_hooks"): (lightning_calls, None),
    }


def find_frameworks():
    for (module, owner, name), records in make_records().items():
        if module in sys.modules:
            hang_around(module, owner, name, records)


def stop_frameworks():
    for module, _, name in make_records():
        for when in ("before", "after"):
            live.pop("%s.%s %s" % (module, name, when), None)
    put_back(FRAMEWORKS)
    parameter_ids.clear()
    parameter_was.clear()
