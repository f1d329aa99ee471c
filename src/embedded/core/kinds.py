# Kinds of tensors: class, shape, dtype and device as one text, which the collector does not follow (what
# counts must not look like a leak itself). Runs in the target. Python 3.6 syntax, built-in modules only.
MOST_SEARCHED = 8  # values of a tuple or dict, for tensors


def key_of(tensor):
    """A kind while it is counted: cheaper than its text, and without a reference to the tensor."""
    return type(tensor), tensor.shape, tensor.dtype, tensor.device


def text_of_key(key):
    return "%s\n%s\n%s\n%s" % (key[0].__name__, list(key[1]), key[2], key[3])


def parts_of_kind(kind):
    """(class, shape, dtype, device)"""
    name, shape, dtype, device = kind.split("\n")
    return name, shape, dtype.replace("torch.", ""), device


def count_kinds(tensors):
    """kind → (how many, bytes)"""
    counts, sizes, found = {}, {}, {}
    for tensor in tensors:
        try:
            key = key_of(tensor)
            if key not in sizes:
                sizes[key] = tensor.element_size() * tensor.numel()
            counts[key] = counts.get(key, 0) + 1
        except Exception:
            continue  # a class of the job's own that does not answer
    for key, count in counts.items():
        kind = text_of_key(key)
        before = found.get(kind, (0, 0))  # two classes may have one name
        found[kind] = before[0] + count, before[1] + count * sizes[key]
    return found


def tensors_in(torch, value):
    """What a module has returned: exactly torch's own classes, since a FakeTensor has no numbers."""
    own = (torch.Tensor, torch.nn.Parameter)
    if type(value) in own:
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        return []
    return [one for one in value[:MOST_SEARCHED] if type(one) in own]
