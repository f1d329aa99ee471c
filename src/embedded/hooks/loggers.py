# python.metrics: what the job tells TensorBoard and Weights & Biases. Runs in the target. Python 3.6 syntax,
# built-in modules only.
import sys

from ..core.wraps import live, put_back, replace, undo
from ..native import table

MOST_TEXT = 65536
MOST_WRITERS = 1000
SUMMARY_WRITERS = ("torch.utils.tensorboard", "torch.utils.tensorboard.writer", "tensorboardX")
WANDB_RUNS = ("wandb.sdk.wandb_run", "wandb")


class Rows(object):
    """Which values of python.metrics form one row: those with the same step, one after another."""

    def __init__(self):
        self.last = 0
        self.current = {}  # id of a writer → (step, row)

    def row(self, writer, step):
        if len(self.current) > MOST_WRITERS:
            self.current.clear()
        known = self.current.get(writer)
        if known is not None and known[0] == step and step is not None:
            return known[1]
        self.last += 1
        self.current[writer] = (step, self.last)
        return self.last


def whole(number):
    """A step as an int; None when it is none."""
    try:
        return None if number is None else int(number)
    except Exception:
        return None


def start_loggers():
    append, rows = table("python.metrics"), Rows()
    whole_number = whole

    def value(source, row, epoch, step, name, value):
        if isinstance(value, str):
            append(None, source, row, epoch, step, name, None, value[:MOST_TEXT])
        elif value is not None:
            try:
                append(None, source, row, epoch, step, name, value, None)
            except (TypeError, ValueError, OverflowError, RuntimeError):
                pass  # an image, a table, a tensor with many elements: no metric

    def scalar(note, writer, tag, scalar_value, global_step=None, *args, **kwargs):
        step = whole_number(global_step)
        value("tensorboard", rows.row(id(writer), step), None, step, tag, scalar_value)

    def scalars(note, writer, main_tag, tag_scalar_dict, global_step=None, *args, **kwargs):
        step = whole_number(global_step)
        row = rows.row(id(writer), step)
        for tag, scalar_value in tag_scalar_dict.items():
            value("tensorboard", row, None, step, "%s/%s" % (main_tag, tag), scalar_value)

    def step_before(run, *args, **kwargs):
        return whole_number(getattr(run, "step", None))

    def flat(data, prefix):
        for key, item in data.items():
            if isinstance(item, dict):
                for pair in flat(item, "%s%s." % (prefix, key)):
                    yield pair
            else:
                yield "%s%s" % (prefix, key), item

    def wandb_log(note, run, data, step=None, commit=None, *args, **kwargs):
        at = whole_number(step) if step is not None else note
        row = rows.row(id(run), at)
        values = dict(flat(data, ""))
        epoch = whole_number(values.pop("epoch", None))
        for name, item in values.items():
            if not name.startswith("_"):
                value("wandb", row, epoch, at, name, item)

    live.update(scalar=scalar, scalars=scalars, step_before=step_before, wandb=wandb_log)


def stop_loggers():
    for name in ("scalar", "scalars", "step_before", "wandb"):
        live.pop(name, None)
    put_back("loggers")


def find_loggers():
    """Wraps what has been imported meanwhile. Returns whether an import seems to be under way."""
    unfinished = False
    for name in SUMMARY_WRITERS:
        module = sys.modules.get(name)
        if module is not None:
            writer = vars(module).get("SummaryWriter")
            if isinstance(writer, type):
                replace("loggers", writer, "add_scalar", after="scalar")
                replace("loggers", writer, "add_scalars", after="scalars")
            else:
                unfinished = True
    for name in WANDB_RUNS:
        module = sys.modules.get(name)
        run = vars(module).get("Run") if module is not None else None
        if isinstance(run, type):
            replace("loggers", run, "log", before="step_before", after="wandb")
    wandb = sys.modules.get("wandb")
    current = vars(wandb).get("run") if wandb is not None else None
    if current is not None:  # wandb.init() came before us: wandb.log is a method of the run as it was
        replace("loggers", type(current), "log", before="step_before", after="wandb")
        bound = vars(wandb).get("log")
        if getattr(bound, "__self__", None) is current and hasattr(bound, "__func__"):
            method = current.log
            if bound.__func__ is not method.__func__:
                wandb.log = method
                undo["loggers"].append((wandb, "log", method, bound))
    return unfinished
