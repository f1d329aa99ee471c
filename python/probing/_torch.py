"""Tracing of PyTorch, switched from code: the setting probing.torch.profiling in other words."""

from ._config import config

SETTING = "probing.torch.profiling"


def _text(value):
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, int, float)):
        return str(value)
    return ",".join(value)


def enable_torch_profiling(**options):
    """Notes steps, modules, collectives of torch from the next step on.

    ``mode`` is "on", "steps" or "full"; ``rate``, ``backward``, ``collectives``, ``nan``, ``modules`` and
    ``exprs`` (a text, or several) are those of the setting; ``max_overhead`` (0.03) is the share of the
    time it may take. A wrong one is a ValueError that says what would be right.
    """
    settings = {}
    if "max_overhead" in options:
        settings["probing.torch.max_overhead"] = options.pop("max_overhead")
    mode = options.pop("mode", "on")
    items = ["%s=%s" % (name, _text(value)) for name, value in sorted(options.items()) if value is not None]
    settings[SETTING] = ",".join([mode] + items)
    config.update(settings)


def disable_torch_profiling():
    """Takes all of it out of torch again."""
    config[SETTING] = "off"
