// The process that writes history: `probingd --history-worker`, started by process.h.
//
// A process of its own, because the engine that writes Parquet may need memory and time, and because
// it outlives probingd for a moment: when probingd is killed, what is still in the rings that it
// wrote is in files before they go.
#pragma once

namespace probing::history {

// Serves descriptor 3 until the other side closes it, writes what there is left, then ends the
// process: it does not return.
int RunHistoryWorker();

}  // namespace probing::history
