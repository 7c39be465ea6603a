# The libraries that a program with Binade's static library links: binade_libraries, as files. The build includes this,
# and so does the installed package (as binade-link-libraries.cmake), whose users need no CMake package of these
# libraries and none of their headers. Names of those not found, with their Debian packages: binade_missing_libraries.
set(binade_libraries "")
set(binade_library_names "")
set(binade_library_packages "")
set(binade_missing_libraries "")
foreach(library IN ITEMS fmt/libfmt-dev hwy/libhwy-dev tomlplusplus/libtomlplusplus-dev
                         sentencepiece/libsentencepiece-dev sentencepiece_train/libsentencepiece-dev
                         pcre2-8/libpcre2-dev utf8proc/libutf8proc-dev z/zlib1g-dev zstd/libzstd-dev)
  string(REGEX MATCH "^([^/]+)/(.+)$" library "${library}")
  list(APPEND binade_library_names "${CMAKE_MATCH_1}")
  list(APPEND binade_library_packages "${CMAKE_MATCH_2}")
  find_library(BINADE_${CMAKE_MATCH_1}_LIBRARY "${CMAKE_MATCH_1}")
  mark_as_advanced(BINADE_${CMAKE_MATCH_1}_LIBRARY)
  if(BINADE_${CMAKE_MATCH_1}_LIBRARY)
    list(APPEND binade_libraries "${BINADE_${CMAKE_MATCH_1}_LIBRARY}")
  else()
    string(APPEND binade_missing_libraries " lib${CMAKE_MATCH_1} (Debian package ${CMAKE_MATCH_2})")
  endif()
endforeach()
