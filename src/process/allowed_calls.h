// Whether this command may trace and read processes at all: a seccomp filter it runs under, or a kernel that
// is none (gVisor), may have taken the calls away. Asked with a pid that no process has, so nothing is
// touched.
#pragma once

namespace probing::process {

// The errno of the call, or 0 when the kernel has it and lets us use it.
int TraceError();
int ReadMemoryError();

}  // namespace probing::process
