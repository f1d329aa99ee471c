// Routines that are written in assembler because no compiler makes them. Inside a target.
#pragma once

extern "C" {

// The probe thread's first and last instructions. When probing_control_main returns a handle,
// the library is to be unmapped, which no code inside of it could survive: so the thread jumps
// to dlclose, whose return leads straight into the C library.
__attribute__((visibility("hidden"))) void* probing_thread_entry(void* argument);

// Calls the function; 1 when it returned. An unwinder finds the personality (probing_stop_unwinding, of
// torch/guarded_call.cc) in the frame's description, stops here and goes on at probing_after_a_throw with the
// stack as it is behind the call: then 0.
__attribute__((visibility("hidden"))) int probing_call_guarded(void (*function)(void*), void* argument);
__attribute__((visibility("hidden"))) void probing_after_a_throw();
}
