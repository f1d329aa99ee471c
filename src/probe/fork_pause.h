// Python 3.12 and later count the threads of the process right after os.fork(), and warn when there is more
// than one. So that a job with a single thread sees no warning because of the probe, the probe's thread ends
// before such a fork, and a new one takes its place as soon as Python runs code again.
//
// Clients notice nothing: the socket and all connections stay open, and what arrives meanwhile waits in them.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace probing::probe {

class Control;

// For the fork handlers, on the thread that forks. The first is called without any lock of ours, and waits
// for a few milliseconds at most; when the probe's thread is busy, it stays, and Python warns.
void PauseForFork();
void ResumeAfterFork();
void ForgetPauseInForkedChild();

// For the probe's thread: it can be woken by `wake_fd` and asked to end. −1: no longer.
void OfferPause(int wake_fd);
// True: the thread was asked to end and must return at once; the next one gets `control`. A busy thread
// refuses.
enum class Activity : std::uint8_t { kIdle, kBusy };
bool PauseIfAsked(Control* control, Activity activity);

// Whether a thread of this process has ended.
bool IsGone(pid_t tid);

// Provided by lifecycle.cc: starts the probe's thread again. False when there can be none now.
bool StartThreadAgain(Control* control);

}  // namespace probing::probe
