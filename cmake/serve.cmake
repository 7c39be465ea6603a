# The HTTP library of the command serve, if it is there; the program is compiled with BINADE_SERVE set to 1 or 0. Only the
# program links it. Debian's is a shared library: what it was compiled with must be defined for its header, too, so that
# both see the same classes, and that takes OpenSSL's and Brotli's headers. Connections are not encrypted all the same.
set(binade_has_serve OFF)
if(NOT BINADE_SERVE STREQUAL "OFF")
  find_path(BINADE_HTTPLIB_INCLUDE httplib.h)
  find_library(BINADE_HTTPLIB_LIBRARY cpp-httplib)
  find_package(OpenSSL QUIET)
  find_path(BINADE_BROTLI_INCLUDE brotli/decode.h)
  mark_as_advanced(BINADE_HTTPLIB_INCLUDE BINADE_HTTPLIB_LIBRARY BINADE_BROTLI_INCLUDE)
  if(BINADE_HTTPLIB_INCLUDE AND BINADE_HTTPLIB_LIBRARY AND OPENSSL_FOUND AND BINADE_BROTLI_INCLUDE)
    set(binade_has_serve ON)
  elseif(BINADE_SERVE STREQUAL "ON")
    message(FATAL_ERROR "cpp-httplib was not found (Debian package libcpp-httplib-dev)")
  endif()
endif()
if(binade_has_serve)
  message(STATUS "HTTP: ${BINADE_HTTPLIB_LIBRARY}")
  target_include_directories(binade_cli SYSTEM PRIVATE "${BINADE_HTTPLIB_INCLUDE}" ${OPENSSL_INCLUDE_DIR}
                                                       "${BINADE_BROTLI_INCLUDE}")
  target_link_libraries(binade_cli PRIVATE "${BINADE_HTTPLIB_LIBRARY}")
  set(httplib_definitions BINADE_SERVE=1 CPPHTTPLIB_OPENSSL_SUPPORT CPPHTTPLIB_ZLIB_SUPPORT CPPHTTPLIB_BROTLI_SUPPORT)
else()
  message(STATUS "HTTP: none, so there is no command serve (Debian package libcpp-httplib-dev)")
  set(httplib_definitions BINADE_SERVE=0)
endif()
# One file knows the library.
set_source_files_properties(src/binade/cli/http_server.cpp PROPERTIES COMPILE_DEFINITIONS "${httplib_definitions}"
                                                                      SKIP_UNITY_BUILD_INCLUSION ON)
