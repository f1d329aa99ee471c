# OpenSSL from Debian's libssl-dev, linked statically: users' machines have another version, or none. Its
# archives ask for nothing newer than the glibc 2.17 of the release build.
#
# As in Headers.cmake /usr/include stays out of the search path; Debian has these headers in two places.
find_library(PROBING_LIBSSL NAMES libssl.a PATHS ${PROBING_LIB} NO_DEFAULT_PATH)
find_library(PROBING_LIBCRYPTO NAMES libcrypto.a PATHS ${PROBING_LIB} NO_DEFAULT_PATH)
if(NOT PROBING_LIBSSL OR NOT PROBING_LIBCRYPTO)
  message(FATAL_ERROR "libssl.a or libcrypto.a is missing: run `make deps` first")
endif()
set(OPENSSL_HEADERS ${CMAKE_BINARY_DIR}/third_party/openssl)
file(MAKE_DIRECTORY ${OPENSSL_HEADERS}/openssl)
file(GLOB HEADERS ${PROBING_INCLUDE}/openssl/*.h ${PROBING_INCLUDE}/${PROBING_TRIPLET}/openssl/*.h)
foreach(HEADER ${HEADERS})
  get_filename_component(NAME ${HEADER} NAME)
  file(CREATE_LINK ${HEADER} ${OPENSSL_HEADERS}/openssl/${NAME} SYMBOLIC)
endforeach()
add_library(probing_openssl INTERFACE)
target_include_directories(probing_openssl SYSTEM INTERFACE ${OPENSSL_HEADERS})
target_link_libraries(probing_openssl INTERFACE ${PROBING_LIBSSL} ${PROBING_LIBCRYPTO} Threads::Threads
                                                ${CMAKE_DL_LIBS})
