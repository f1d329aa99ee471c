# Which rank of the job this process is, in torch's own words. Runs in the target. Python 3.6 syntax, built-in
# modules only.
import sys

MEGATRON = (
    ("dp", "get_data_parallel_rank"),
    ("tp", "get_tensor_model_parallel_rank"),
    ("pp", "get_pipeline_model_parallel_rank"),
    ("ep", "get_expert_model_parallel_rank"),
    ("cp", "get_context_parallel_rank"),
)


def roles_in_job(rank):
    """{"tp": 1, "dp": 0}: the rank in each kind of parallelism, as Megatron's parallel_state or the groups of
    a DeviceMesh with named dimensions have it."""
    roles = {}
    state = sys.modules.get("megatron.core.parallel_state") or sys.modules.get("megatron.mpu")
    for name, function in MEGATRON if state is not None else ():
        try:
            roles[name] = int(getattr(state, function)())
        except Exception:  # not set up, or an older one
            continue
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(c10d, "_world", None)
    for group, ranks in list(getattr(world, "pg_group_ranks", {}).items()):
        about = str(getattr(group, "group_desc", ""))
        name = about[len("mesh_") :]
        is_named = about.startswith("mesh_") and name != "default" and not name.startswith("dim_")
        if is_named and rank in ranks:
            roles.setdefault(name, int(ranks[rank]))
    return roles


def place_in_job():
    """(rank, world size, roles) as torch.distributed has them, roles being "dp=0,tp=1"; None while the job
    has not set it up. Nothing is imported, and no other rank is asked."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            rank = distributed.get_rank()
            roles = ",".join("%s=%d" % role for role in sorted(roles_in_job(rank).items()))
            return rank, distributed.get_world_size(), roles
    except Exception:
        pass
    return None
