# probing_fuzzer(NAME source… DEPS dep…): one function that is fed with any bytes, built twice.
#
# With PROBING_FUZZ it is a libFuzzer program (clang; all code is built for it), part of the target
# `fuzzers`; tools/fuzz.py runs them. Otherwise it is a plain program that is fed with the
# files in tests/corpus/NAME, what once broke it among them: the test corpus.NAME, for any compiler.

if(PROBING_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  add_custom_target(fuzzers)
endif()

function(probing_fuzzer NAME)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  set(PROGRAMS)
  if(PROBING_FUZZ)
    add_executable(${NAME} EXCLUDE_FROM_ALL ${ARG_UNPARSED_ARGUMENTS})
    target_link_options(${NAME} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers ${NAME})
    list(APPEND PROGRAMS ${NAME})
  endif()
  if(NOT PROBING_FUZZ)
    add_executable(${NAME}_corpus EXCLUDE_FROM_ALL ${ARG_UNPARSED_ARGUMENTS} ${CMAKE_SOURCE_DIR}/tests/corpus/replay.cc)
    add_test(NAME corpus.${NAME} COMMAND ${NAME}_corpus ${CMAKE_SOURCE_DIR}/tests/corpus/${NAME})
    set_tests_properties(corpus.${NAME} PROPERTIES TIMEOUT 60)
    add_dependencies(cpp_tests ${NAME}_corpus)
    list(APPEND PROGRAMS ${NAME}_corpus)
  endif()
  foreach(PROGRAM ${PROGRAMS})
    foreach(DEP ${ARG_DEPS})
      target_link_libraries(${PROGRAM} PRIVATE probing_${DEP})
    endforeach()
  endforeach()
endfunction()
