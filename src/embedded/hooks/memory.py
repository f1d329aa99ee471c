# The part of python.memory that only the interpreter knows. Runs in the target. Python 3.6 syntax, built-in
# modules only.
import gc
import sys
from itertools import islice

from ..torch.census import tensors_counted

MOST_BLOCKS = 200000  # counting the objects of a larger heap would hold the job for milliseconds


def memory_of_gpus():
    """What the framework says, if it is there and uses a GPU already: (allocated, reserved)."""
    cuda = sys.modules.get("torch.cuda")
    if cuda is None or not vars(cuda).get("_initialized"):
        return None, None
    devices = range(cuda.device_count())
    return (
        sum(cuda.memory_allocated(device) for device in devices),
        sum(cuda.memory_reserved(device) for device in devices),
    )


def counts_of_memory():
    """(blocks, gen0, gen1, gen2, objects, tensors, their bytes, gpu_allocated, gpu_reserved); None for what
    is not known: of tensors what the last census says."""
    blocks = sys.getallocatedblocks() or None  # 0 when another allocator is in use
    few = blocks is not None and blocks <= MOST_BLOCKS
    # In one call of C code: heap.py says why.
    objects = sum(map(len, islice(iter(gc.get_objects, None), 1))) if few else None
    try:
        allocated, reserved = memory_of_gpus()
    except Exception:
        allocated, reserved = None, None
    return (blocks,) + gc.get_count() + (objects,) + tensors_counted() + (allocated, reserved)
