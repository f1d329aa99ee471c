// Offsets of LoaderCall's members for the assembler; loader_stub.h checks them.
#pragma once

#define PROBING_CALL_DLOPEN 0
#define PROBING_CALL_DLERROR 8
#define PROBING_CALL_MUNMAP 16
#define PROBING_CALL_FLAGS 24
#define PROBING_CALL_STUB_ADDRESS 32
#define PROBING_CALL_FD 40
#define PROBING_CALL_HANDLE 48
#define PROBING_CALL_DONE 56
#define PROBING_CALL_PATH 80
#define PROBING_CALL_NAME 144
#define PROBING_CALL_ERROR 176
