// The constants of the processor that this is compiled for. Nothing else asks which one that is, tests aside.
#pragma once

#if defined(__x86_64__)
#include "arch/x86_64/native.h"
#elif defined(__aarch64__)
#include "arch/aarch64/native.h"
#else
#error "src/arch has no folder for this processor"
#endif
