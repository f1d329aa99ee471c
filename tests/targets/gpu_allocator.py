"""A stand-in for the GPU allocator of the real PyTorch: what torch.cuda.memory calls in C++, by its names,
with snapshots in the format of torch 2.13. `install()` puts it into torch._C; torch.cuda says that it is
there then.

Memory is handed out of segments, large ones and small ones, as by the real one; there is none behind it.
"""

import sys
import time

import torch

MB = 1 << 20
ROUNDING = 512
SMALL_SEGMENT, LARGE_SEGMENT = 2 * MB, 20 * MB


class Allocator(object):
    def __init__(self, devices=1, limit=1 << 40):
        self.devices, self.limit = devices, limit
        self.segments, self.traces = [], [[] for _ in range(devices)]
        self.next_address = 0x7F0000000000
        self.enabled = None  # None, "state" or "all"
        self.context = self.stacks = None
        self.most_entries = sys.maxsize
        self.observers = []
        self.switched = 0  # how often the history was switched on
        self.queued = len(torch.cuda._queued_calls)  # those of torch itself ask a real device

    # What the job calls.

    def allocate(self, size, device=0, stream=0):
        rounded = -(-size // ROUNDING) * ROUNDING
        block = self.find(rounded, device, stream)
        if block is None:
            frames = self.frames()
            self.note(device, "oom", self.limit - self.reserved(device), size, stream, frames)
            for observer in self.observers:
                observer(device, rounded, self.reserved(device), self.limit - self.reserved(device))
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate %d bytes." % size)
        block.update(state="active_allocated", requested_size=size)
        block["frames"] = self.frames() if self.context else []
        self.note(device, "alloc", block["address"], rounded, stream, block["frames"])
        return device, block["address"]

    def free(self, handle, used_elsewhere=False):
        device, address = handle
        for segment in self.segments:
            for block in segment["blocks"]:
                if segment["device"] == device and block["address"] == address:
                    self.note(device, "free_requested", address, block["size"], segment["stream"], [])
                    if used_elsewhere:
                        block["state"] = "active_pending_free"
                        return
                    block.update(state="inactive", requested_size=0, frames=[])
                    self.note(device, "free_completed", address, block["size"], segment["stream"], [])

    # What is behind it.

    def reserved(self, device):
        return sum(one["total_size"] for one in self.segments if one["device"] == device)

    def find(self, size, device, stream):
        for segment in self.segments:
            if (segment["device"], segment["stream"]) != (device, stream):
                continue
            for at, block in enumerate(segment["blocks"]):
                if block["state"] == "inactive" and block["size"] >= size:
                    rest = dict(block, size=block["size"] - size, address=block["address"] + size)
                    block["size"] = size
                    if rest["size"]:
                        segment["blocks"].insert(at + 1, rest)
                    return block
        is_small = size <= MB
        total = SMALL_SEGMENT if is_small else max(LARGE_SEGMENT, -(-size // (2 * MB)) * 2 * MB)
        if self.reserved(device) + total > self.limit:
            return None
        address, self.next_address = self.next_address, self.next_address + total
        block = {
            "address": address,
            "size": total,
            "requested_size": 0,
            "state": "inactive",
            "frames": [],
        }
        self.segments.append(
            {
                "device": device,
                "address": address,
                "total_size": total,
                "stream": stream,
                "segment_type": "small" if is_small else "large",
                "segment_pool_id": (0, 0),
                "is_expandable": False,
                "frames": self.frames() if self.context else [],
                "blocks": [block],
            }
        )
        self.note(device, "segment_alloc", address, total, stream, [])
        return self.find(size, device, stream)

    def frames(self):
        frames, frame = [], sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            frames.append({"name": code.co_name, "filename": code.co_filename, "line": frame.f_lineno})
            frame = frame.f_back
        return frames

    def note(self, device, action, address, size, stream, frames):
        if self.enabled != "all":
            return
        place = "device_free" if action == "oom" else "addr"
        entry = {"action": action, place: address, "size": size, "stream": stream}
        entry.update(time_us=time.time_ns() // 1000, compile_context="N/A", user_metadata="")
        if self.context:
            entry["frames"] = frames
        trace = self.traces[device]
        trace.append(entry)
        del trace[: max(0, len(trace) - self.most_entries)]

    # What torch.cuda.memory calls.

    def record(self, enabled, context, stacks, most_entries, clear, *_):
        self.switched += enabled is not None
        self.enabled, self.context = enabled, context if enabled else None
        self.stacks, self.most_entries = stacks, most_entries
        if clear or not enabled:
            self.traces = [[] for _ in range(self.devices)]

    def snapshot(self, _):
        segments = []
        for segment in self.segments:
            active = [one for one in segment["blocks"] if one["state"] != "inactive"]
            allocated = [one for one in active if one["state"] == "active_allocated"]
            one = dict(segment, blocks=[dict(block) for block in segment["blocks"]])
            one["allocated_size"] = sum(block["size"] for block in allocated)
            one["active_size"] = sum(block["size"] for block in active)
            one["requested_size"] = sum(block["requested_size"] for block in active)
            segments.append(one)
        return {
            "segments": segments,
            "device_traces": [list(trace) for trace in self.traces],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False},
            "external_annotations": [],
        }

    def install(self):
        torch._C._cuda_record_memory_history = self.record
        torch._C._cuda_memorySnapshot = self.snapshot
        torch._C._cuda_isHistoryEnabled = lambda: self.enabled is not None
        torch._C._cuda_attach_out_of_memory_observer = self.observers.append
        torch.cuda.is_available = lambda: True
        torch.cuda.device_count = lambda: self.devices
        torch.cuda._lazy_init = self.begin
        return self

    def begin(self):
        """What torch.cuda does when it is used for the first time."""
        if torch.cuda._initialized:
            return
        for call, _ in list(torch.cuda._queued_calls[self.queued :]):
            call()
        torch.cuda._initialized = True
