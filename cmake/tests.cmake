# One GoogleTest executable per folder of tests/, one ctest entry per test suite.
find_package(GTest REQUIRED)

file(GLOB support_sources CONFIGURE_DEPENDS tests/support/*.cpp)
# Not called by anyone, so it is a source of every executable.
set(poison_source "${CMAKE_CURRENT_SOURCE_DIR}/tests/support/poison.cpp")
list(REMOVE_ITEM support_sources "${poison_source}")
file(GLOB_RECURSE test_files CONFIGURE_DEPENDS tests/*_test.cpp)

set(test_folders "")
foreach(file IN LISTS test_files)
  cmake_path(RELATIVE_PATH file BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/tests" OUTPUT_VARIABLE relative)
  string(REGEX MATCH "^[^/]+" folder "${relative}")
  list(APPEND test_folders "${folder}")
endforeach()
list(REMOVE_DUPLICATES test_folders)

# The suites are read from the built executable when ctest starts (cmake/discover_suites.cmake).
function(binade_discover_suites target label)
  set(script "${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake")
  file(
    GENERATE
    OUTPUT "${script}"
    CONTENT
      "set(binade_test_executable \"$<TARGET_FILE:${target}>\")
set(binade_test_label \"${label}\")
set(binade_test_directory \"${CMAKE_CURRENT_SOURCE_DIR}\")
set(binade_test_in_one_process \"${BINADE_SANITIZE}\")
include(\"${CMAKE_CURRENT_SOURCE_DIR}/cmake/discover_suites.cmake\")
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${script}")
endfunction()

# GoogleTest's headers are most of what a test file compiles: read them once for all.
file(GENERATE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/test_headers.cpp" CONTENT "\n")
add_library(test_headers OBJECT "${CMAKE_CURRENT_BINARY_DIR}/test_headers.cpp")
target_precompile_headers(test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h> ${common_headers})

# What every test, and so the precompiled header, is compiled with.
add_library(test_dependencies INTERFACE)
target_include_directories(test_dependencies INTERFACE tests)
# GCC 12 sees overflows in string concatenation that are not there.
target_compile_options(test_dependencies INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>
                                                   $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                                                   $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>)
target_link_libraries(test_dependencies INTERFACE binade_dependencies GTest::gmock GTest::gtest_main)

# The library is what AddressSanitizer watches: with it, assertions take three times as long to compile. Linked last: the
# option follows those that it takes back.
add_library(unwatched INTERFACE)
if(BINADE_SANITIZE MATCHES "address")
  target_compile_options(unwatched INTERFACE -fno-sanitize=all)
endif()

# Tests are compiled far more often than they are waited for. One setting of position independence for the header and
# the executables.
function(binade_compile_test target)
  target_link_libraries(${target} PRIVATE test_dependencies)
  binade_compile(${target} -Og)
  target_link_libraries(${target} PRIVATE unwatched)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
endfunction()
binade_compile_test(test_headers)

# Compiled once; an executable links what it calls. Tests of several folders run the program.
set(command_source "${CMAKE_CURRENT_SOURCE_DIR}/tests/cli/command.cpp")
add_library(test_support STATIC ${support_sources} "${command_source}")
binade_compile_test(test_support)
# Tests ask support/paths.h for the folder of the sources, so that their own commands are the same in every clone.
target_compile_definitions(test_support PRIVATE BINADE_EXECUTABLE="$<TARGET_FILE:binade_cli>"
                                                BINADE_SOURCE_DIR="${CMAKE_CURRENT_SOURCE_DIR}")
target_precompile_headers(test_support REUSE_FROM test_headers)

# These tests link only the components up to their own.
set(standalone_components base formats backend ops data)
# These link no component that trains, so that their sanitized build compiles none; the others may use the whole library.
set(core_components tensor autograd amp nn optim io)
# These read the sources or run the program.
set(tests_without_library structure cli)
# Highway includes it once per instruction set.
set_source_files_properties(tests/backend/cpu/rows/vector_math_test.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

foreach(folder IN LISTS test_folders)
  file(GLOB_RECURSE folder_sources CONFIGURE_DEPENDS "tests/${folder}/*.cpp")
  list(REMOVE_ITEM folder_sources "${command_source}")
  set(target "test_${folder}")
  add_executable(${target} ${folder_sources})
  target_precompile_headers(${target} REUSE_FROM test_headers)
  # As in the library, few batches; but the last folders must not end the build with one batch on one core.
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${BINADE_UNITY} UNITY_BUILD_BATCH_SIZE 32)
  if(folder IN_LIST standalone_components OR folder IN_LIST core_components)
    set(last_component ${folder})
    if(folder IN_LIST core_components)
      set(last_component data)
    endif()
    target_sources(${target} PRIVATE ${binade_objects_up_to_${last_component}})
    target_link_libraries(${target} PRIVATE test_support ${binade_libraries})
  elseif(NOT folder IN_LIST tests_without_library)
    target_link_libraries(${target} PRIVATE test_support binade)
  else()
    target_link_libraries(${target} PRIVATE test_support)
  endif()
  if(NOT folder IN_LIST tests_without_library)
    target_sources(${target} PRIVATE "${poison_source}")
  endif()
  binade_compile_test(${target})
  binade_discover_suites(${target} "${folder}")
endforeach()

# The C interface from C and, where its compiler is, from Rust.
if(NOT BINADE_SANITIZE)
  enable_language(C)
  add_executable(test_c_program tests/c/train.c)
  target_link_libraries(test_c_program PRIVATE binade)
  target_compile_options(test_c_program PRIVATE -std=c11 -Wall -Wextra -Wpedantic -Werror)
  add_test(NAME c.program COMMAND test_c_program)
  set_tests_properties(c.program PROPERTIES LABELS c)
  # The program in c.h, which tests/c/c_test.cpp compares with this file.
  add_executable(test_c_example tests/c/example.c)
  target_link_libraries(test_c_example PRIVATE binade)
  target_compile_options(test_c_example PRIVATE -std=c11 -Wall -Wextra -Wpedantic -Werror)
  add_test(NAME c.example COMMAND test_c_example)
  set_tests_properties(c.example PROPERTIES LABELS c PASS_REGULAR_EXPRESSION "^6 15\n$")
  find_program(BINADE_RUSTC rustc)
  mark_as_advanced(BINADE_RUSTC)
  if(BINADE_RUSTC AND BINADE_SHARED)
    add_test(NAME c.rust COMMAND "${CMAKE_COMMAND}" -D "rustc=${BINADE_RUSTC}" -D "source=${CMAKE_CURRENT_SOURCE_DIR}" -D
                                 "build=${CMAKE_CURRENT_BINARY_DIR}" -P "${CMAKE_CURRENT_SOURCE_DIR}/tests/c/rust.cmake")
    set_tests_properties(c.rust PROPERTIES LABELS c)
  endif()
endif()

# The programs of these documents, as their text has them.
set(documents_with_programs docs/tutorial.md docs/fine-tuning.md)
list(TRANSFORM documents_with_programs PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
list(JOIN documents_with_programs "," documents_argument)
set(document_programs "${CMAKE_CURRENT_BINARY_DIR}/documents/document_programs.h")
add_custom_command(
  OUTPUT "${document_programs}"
  COMMAND "${CMAKE_COMMAND}" -D "files=${documents_argument}" -D "out=${document_programs}" -P
          "${CMAKE_CURRENT_SOURCE_DIR}/cmake/extract_programs.cmake"
  DEPENDS ${documents_with_programs} cmake/extract_programs.cmake
  COMMENT "Extracting the programs of the documents"
  VERBATIM)
target_sources(test_docs PRIVATE "${document_programs}")
target_include_directories(test_docs PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/documents")

# These run the program.
foreach(target IN ITEMS test_cli test_bad_files test_ranks test_docs)
  target_compile_definitions(${target} PRIVATE BINADE_EXECUTABLE="$<TARGET_FILE:binade_cli>"
                                               BINADE_VERSION="${PROJECT_VERSION}")
  add_dependencies(${target} binade_cli)
endforeach()
# A program for mpirun.
add_executable(ranks_program tests/rank_program/main.cpp tests/rank_program/exchange_audit.cpp)
add_executable(ranks_example examples/ranks/main.cpp)
file(GLOB grpo_sources CONFIGURE_DEPENDS examples/grpo/*.cpp)
add_executable(grpo_example ${grpo_sources})
target_include_directories(ranks_program PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/tests")
foreach(program IN ITEMS ranks_program ranks_example grpo_example)
  target_link_libraries(${program} PRIVATE binade binade_dependencies)
  binade_compile(${program} -O0)
endforeach()
target_compile_definitions(test_ranks PRIVATE BINADE_RANKS_PROGRAM="$<TARGET_FILE:ranks_program>"
                                             BINADE_RANKS_EXAMPLE="$<TARGET_FILE:ranks_example>")
add_dependencies(test_ranks ranks_program ranks_example)
target_compile_definitions(test_cli PRIVATE BINADE_GRPO_EXAMPLE="$<TARGET_FILE:grpo_example>")
add_dependencies(test_cli grpo_example)
# Preloaded into runs of the program: its system calls fail.
add_library(binade_fail_calls MODULE tests/preload/fail_calls.cpp)
target_link_libraries(binade_fail_calls PRIVATE ${CMAKE_DL_LIBS})
target_compile_features(binade_fail_calls PRIVATE cxx_std_20)
target_compile_options(binade_fail_calls PRIVATE -O0)
target_compile_definitions(test_cli PRIVATE BINADE_FAIL_CALLS="$<TARGET_FILE:binade_fail_calls>")
add_dependencies(test_cli binade_fail_calls)
# It sees the system calls of checkpoints.
target_sources(test_train PRIVATE tests/io/system_calls.cpp)

file(TO_CMAKE_PATH "$ENV{CMAKE_PREFIX_PATH}" environment_prefixes)
cmake_path(CONVERT "${CMAKE_PREFIX_PATH};${environment_prefixes}" TO_NATIVE_PATH_LIST binade_prefix_path NORMALIZE)
string(REGEX REPLACE "^:+|:+$" "" binade_prefix_path "${binade_prefix_path}")

# Tests of the installed package and of the project inside another one. A sanitized library would ask its users to
# link the sanitizers too.
function(binade_install_test name script)
  add_test(
    NAME install.${name}
    COMMAND
      "${CMAKE_COMMAND}" -D "source=${CMAKE_CURRENT_SOURCE_DIR}" -D "build=${CMAKE_CURRENT_BINARY_DIR}" -D
      "work=${CMAKE_CURRENT_BINARY_DIR}/install_test/${name}" -D "compiler=${CMAKE_CXX_COMPILER}" ${ARGN} -P
      "${CMAKE_CURRENT_SOURCE_DIR}/tests/install/${script}.cmake")
  set_tests_properties(install.${name} PROPERTIES LABELS install TIMEOUT 1500)
  # Their own projects find Binade's dependencies where this build did.
  if(binade_prefix_path)
    set_property(TEST install.${name} APPEND PROPERTY ENVIRONMENT "CMAKE_PREFIX_PATH=${binade_prefix_path}")
  endif()
endfunction()
if(NOT BINADE_SANITIZE)
  binade_install_test(examples installed_package)
  binade_install_test(headers every_header)
  binade_install_test(add_subdirectory parent_project -D how=add_subdirectory)
  binade_install_test(fetch_content parent_project -D how=FetchContent)
  binade_install_test(parent_build parent_project -D how=add_subdirectory -D program=ON)
  set_tests_properties(install.headers install.parent_build PROPERTIES LABELS "install;slow")
  find_program(BINADE_SHLIBDEPS dpkg-shlibdeps)  # of Debian's dpkg-dev, which makes the packages' dependencies
  mark_as_advanced(BINADE_SHLIBDEPS)
  if(BINADE_SHARED AND BINADE_SHLIBDEPS)
    binade_install_test(packages packages)
    set_tests_properties(install.packages PROPERTIES LABELS "install;slow")
  endif()
endif()

# Plants every fault of tests/mutants in a copy of the sources with a build of its own. Whether the sources
# still hold the text of each is checked every time.
if(NOT BINADE_SANITIZE)
  find_package(Python3 3.11 QUIET COMPONENTS Interpreter) # for tomllib
  if(Python3_FOUND)
    add_test(NAME mutate.list COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/scripts/mutate" --list)
    add_test(NAME mutate.rules COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/tests/mutants/rules_test.py")
  endif()
  add_test(NAME mutate.all COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/scripts/mutate")
  set_tests_properties(mutate.all PROPERTIES LABELS slow TIMEOUT 7200)
  add_test(NAME ranks.matrix COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/scripts/check-ranks" "$<TARGET_FILE:binade_cli>")
  set_tests_properties(ranks.matrix PROPERTIES LABELS "mpi;slow" TIMEOUT 7200 SKIP_REGULAR_EXPRESSION "^skipped:")
endif()

# The Python package's own tests, if it was built; else a test that says what is missing.
if(TARGET _binade)
  add_executable(python_gpt_loop python/tests/gpt_loop.cpp)
  target_link_libraries(python_gpt_loop PRIVATE binade binade_dependencies)
  binade_compile(python_gpt_loop -O1)
  add_test(NAME python.package COMMAND "${Python_EXECUTABLE}" -m pytest -q -p no:cacheprovider
                                       "${CMAKE_CURRENT_SOURCE_DIR}/python/tests")
  set_tests_properties(
    python.package
    PROPERTIES LABELS python TIMEOUT 600 SKIP_REGULAR_EXPRESSION "No module named pytest" ENVIRONMENT
               "PYTHONPATH=${binade_python_path};PYTHONDONTWRITEBYTECODE=1;BINADE_GPT_LOOP=$<TARGET_FILE:python_gpt_loop>")
  add_test(NAME python.notebooks COMMAND "${Python_EXECUTABLE}" -m pytest -q -p no:cacheprovider
                                         "${CMAKE_CURRENT_SOURCE_DIR}/python/tests/test_notebooks.py")
  set_tests_properties(
    python.notebooks
    PROPERTIES LABELS "python;slow" TIMEOUT 600 SKIP_REGULAR_EXPRESSION "No module named pytest" ENVIRONMENT
               "PYTHONPATH=${binade_python_path};PYTHONDONTWRITEBYTECODE=1;BINADE_SLOW_TESTS=1")
elseif(DEFINED binade_python_missing)
  add_test(NAME python.package COMMAND "${CMAKE_COMMAND}" -E echo "skipped: there is no ${binade_python_missing}")
  set_tests_properties(python.package PROPERTIES LABELS python SKIP_REGULAR_EXPRESSION "^skipped:")
endif()
if(NOT BINADE_SANITIZE)
  add_test(NAME python.install COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/scripts/check-python")
  set_tests_properties(python.install PROPERTIES LABELS "python;net;slow" TIMEOUT 3600)
endif()

if(NOT BINADE_SANITIZE)
  add_test(NAME structure.test_threads
           COMMAND "${CMAKE_COMMAND}" -D "build=${CMAKE_CURRENT_BINARY_DIR}" -P
                   "${CMAKE_CURRENT_SOURCE_DIR}/tests/structure/test_threads.cmake")
  set_tests_properties(structure.test_threads PROPERTIES LABELS structure)
endif()

# Suites get theirs from cmake/discover_suites.cmake.
include(cmake/test_environment.cmake)
get_property(configured_tests DIRECTORY PROPERTY TESTS)
foreach(test IN LISTS configured_tests)
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT ${binade_test_environment})
  if(test MATCHES "^install\\.")  # they compile
    set_property(TEST ${test} PROPERTY PROCESSORS ${binade_team})
  endif()
endforeach()
