# How every part of Probing is compiled, and probing_library(): one folder, one target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)  # the CLI looks for the probe beside itself

add_compile_options(-Wall -Wextra -Wshadow -Wno-missing-field-initializers)
add_compile_definitions(PROBING_VERSION="${PROJECT_VERSION}")
if(PROBING_SANITIZER)
  add_compile_options(-fsanitize=${PROBING_SANITIZER} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PROBING_SANITIZER})
  # Limits of address space cannot be kept with a sanitizer's shadow memory.
  add_compile_definitions(PROBING_SANITIZED)
  if(PROBING_SANITIZER STREQUAL thread)
    add_compile_definitions(PROBING_TSAN)
  endif()
endif()

if(CMAKE_BUILD_TYPE STREQUAL Release)
  # Small files start faster and travel lighter; the debug preset has the symbols. zig makes debug information
  # unless told not to, which takes a quarter of the time and is thrown away.
  add_compile_options(-g0)
  add_link_options(-Wl,--gc-sections $<$<NOT:$<BOOL:$<TARGET_PROPERTY:PROBING_KEEPS_SYMBOLS>>>:-s>)
endif()

find_package(Threads REQUIRED)

# probing_library(NAME [EXCEPTIONS] DEPS dep…)
# A static library of all *.cc here and below except tests, fuzzers and main.cc. Without EXCEPTIONS the
# code can go into a target: nothing in it throws, a thread that Python ends with pthread_exit can be
# unwound through it, and nothing of it runs when the process ends: other threads may still be in it. x_test.cc files become the test program NAME_test, each
# x_fuzz.cc a fuzzer (Fuzz.cmake).
function(probing_library NAME)
  cmake_parse_arguments(ARG "EXCEPTIONS" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE SOURCES CONFIGURE_DEPENDS *.cc)
  foreach(PROCESSOR ${PROBING_LEFT_OUT})
    list(FILTER SOURCES EXCLUDE REGEX "/${PROCESSOR}/")
  endforeach()
  set(TESTS ${SOURCES})
  set(FUZZERS ${SOURCES})
  list(FILTER TESTS INCLUDE REGEX "_test\\.cc$")
  list(FILTER FUZZERS INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER SOURCES EXCLUDE REGEX "(_test|_benchmark|_fuzz|/main)\\.cc$")
  add_library(probing_${NAME} STATIC ${SOURCES})
  target_include_directories(probing_${NAME} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  if(NOT ARG_EXCEPTIONS)
    target_compile_options(probing_${NAME} PRIVATE -fno-exceptions -fasynchronous-unwind-tables
      $<$<CXX_COMPILER_ID:Clang>:-Werror=exit-time-destructors>)
  endif()
  foreach(DEP ${ARG_DEPS})
    target_link_libraries(probing_${NAME} PUBLIC probing_${DEP})
  endforeach()
  if(TESTS)
    probing_test(${NAME} ${TESTS})
  endif()
  foreach(FUZZER ${FUZZERS})
    get_filename_component(FUZZER_NAME ${FUZZER} NAME_WE)
    probing_fuzzer(${FUZZER_NAME} ${FUZZER} DEPS ${NAME})
  endforeach()
endfunction()
