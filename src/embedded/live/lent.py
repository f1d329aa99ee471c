# What the census of tensors (census.py) has seen, for the tables that are made on request: it runs among the
# hooks, which are modules of their own, and hooks.cc puts its own objects in here. Runs in the target.
lent = {
    "census_kept": [],  # (time, step, {kind: (count, bytes)}), oldest first
    "birthplaces": {},  # address of a tensor's numbers → (shape, dtype, path of the module that returned it)
    "looked_at": [],  # tensors, during a look
}
counts_kept = []  # the same of live_leaks.py: (time, None, {kind: (count, bytes)}), oldest first
