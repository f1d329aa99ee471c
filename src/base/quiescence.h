// Tells when no other thread of this process can still be inside a few instructions that it entered before.
//
// A library that takes its functions back (from pthread_atfork, for example) cannot see a thread that has
// read their address and was preempted before its call, or before the last `ret`. Such a thread is runnable
// and leaves those instructions as soon as it runs. So it is enough to wait until every thread that existed
// has run for a moment, or sleeps in a system call.
#pragma once

#include <cstdint>

namespace probing {

// True when that is so for every other thread. False when `timeout_ms` passes first: a thread is stopped, or
// never gets a CPU.
// REQUIRES: the instructions in question make no system call. Allocates nothing that outlives the call.
bool WaitForQuiescence(std::int64_t timeout_ms);

}  // namespace probing
