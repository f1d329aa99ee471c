# C++ tests: built when asked for (the target `cpp_tests`), with every preset. So the programs that users get
# and what is tested are the same objects, compiled once.
enable_testing()
include(GoogleTest)
add_custom_target(cpp_tests)

# From its sources (Debian's googletest): the release build has another C++ library than Debian's binary.
set(GOOGLETEST /usr/src/googletest/googletest)
if(NOT EXISTS ${GOOGLETEST})
  message(FATAL_ERROR "${GOOGLETEST} is missing: run `make deps` first")
endif()
add_library(googletest STATIC EXCLUDE_FROM_ALL ${GOOGLETEST}/src/gtest-all.cc ${GOOGLETEST}/src/gtest_main.cc)
target_include_directories(googletest PRIVATE ${GOOGLETEST})
target_include_directories(googletest SYSTEM PUBLIC ${GOOGLETEST}/include)
target_compile_options(googletest PRIVATE -w)
target_link_libraries(googletest PUBLIC Threads::Threads)

# probing_test(NAME source…): the test program NAME_test.
function(probing_test NAME)
  add_executable(${NAME}_test EXCLUDE_FROM_ALL ${ARGN})
  target_link_libraries(${NAME}_test PRIVATE probing_${NAME} googletest)
  # Some look at their own stack.
  set_target_properties(${NAME}_test PROPERTIES PROBING_KEEPS_SYMBOLS ON)
  target_compile_options(${NAME}_test PRIVATE -O1 -fno-optimize-sibling-calls)
  target_compile_definitions(${NAME}_test PRIVATE PROBING_TEST_ROOT="${CMAKE_SOURCE_DIR}/tests/root")
  if(NOT PROBING_SYSROOT)  # those for another machine are run there (tools/arm64_machine.py)
    gtest_discover_tests(${NAME}_test TEST_PREFIX ${NAME}. DISCOVERY_TIMEOUT 60)
  endif()
  add_dependencies(cpp_tests ${NAME}_test)
endfunction()
