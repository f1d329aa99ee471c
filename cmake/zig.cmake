# Toolchain of the release build: clang and libc++ from the PyPI package `ziglang`, for a glibc
# old enough that one libprobing.so loads into every container still in use. For this machine's processor, or
# for PROBING_PROCESSOR.
set(CMAKE_SYSTEM_NAME Linux)
if(NOT PROBING_PROCESSOR)
  set(PROBING_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PROBING_PROCESSOR)
set(CMAKE_SYSTEM_PROCESSOR ${PROBING_PROCESSOR})
if(PROBING_PROCESSOR STREQUAL aarch64)
  set(PROBING_ZIG zig-aarch64)
else()
  set(PROBING_ZIG zig)
endif()
set(CMAKE_C_COMPILER ${CMAKE_CURRENT_LIST_DIR}/${PROBING_ZIG}-cc)
set(CMAKE_CXX_COMPILER ${CMAKE_CURRENT_LIST_DIR}/${PROBING_ZIG}-c++)
set(CMAKE_AR ${CMAKE_CURRENT_LIST_DIR}/zig-ar)
set(CMAKE_RANLIB ${CMAKE_CURRENT_LIST_DIR}/zig-ranlib)
