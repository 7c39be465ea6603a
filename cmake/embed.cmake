# The default corpus of `binade train`: the project's own sources and documents in one file, which
# src/binade/data/builtin.cpp takes into the program. Sorted by path, so that it is the same everywhere.
file(GLOB_RECURSE corpus_files CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" src/binade/*.h
     src/binade/*.cpp src/binade/*.def docs/*.md README.md)
list(SORT corpus_files)

set(corpus_list "${CMAKE_CURRENT_BINARY_DIR}/corpus_files.txt")
set(corpus_file "${CMAKE_CURRENT_BINARY_DIR}/corpus.txt")
list(JOIN corpus_files "\n" corpus_lines)
file(CONFIGURE OUTPUT "${corpus_list}" CONTENT "${corpus_lines}\n" @ONLY)

add_custom_command(
  OUTPUT "${corpus_file}"
  COMMAND "${CMAKE_COMMAND}" -D "list=${corpus_list}" -D "out=${corpus_file}" -P
          "${CMAKE_CURRENT_SOURCE_DIR}/cmake/concatenate.cmake"
  DEPENDS ${corpus_files} "${corpus_list}" cmake/concatenate.cmake
  WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
  COMMENT "Gathering the default corpus"
  VERBATIM)

set_source_files_properties(
  src/binade/data/builtin.cpp PROPERTIES OBJECT_DEPENDS "${corpus_file}" COMPILE_DEFINITIONS
                                         "BINADE_CORPUS_FILE=\"${corpus_file}\"")
