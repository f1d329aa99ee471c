# Header-only libraries from Debian packages.
#
# The release build compiles against an old glibc's headers, so /usr/include itself must stay
# out of its search path: the few folders we need are linked into one of our own.
set(PROBING_HEADERS ${CMAKE_BINARY_DIR}/third_party/include)
file(MAKE_DIRECTORY ${PROBING_HEADERS})
foreach(LIBRARY boost nlohmann CLI)
  if(NOT EXISTS /usr/include/${LIBRARY})
    message(FATAL_ERROR "/usr/include/${LIBRARY} is missing: run `make deps` first")
  endif()
  file(CREATE_LINK /usr/include/${LIBRARY} ${PROBING_HEADERS}/${LIBRARY} SYMBOLIC)
endforeach()
add_library(probing_headers INTERFACE)
target_include_directories(probing_headers SYSTEM INTERFACE ${PROBING_HEADERS})
