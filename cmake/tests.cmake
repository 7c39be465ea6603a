# One GoogleTest executable per folder of tests/, one ctest entry per test suite.
find_package(GTest REQUIRED)

file(GLOB support_sources CONFIGURE_DEPENDS tests/support/*.cpp)
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
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)  # one setting for the header and the executables
add_library(test_headers OBJECT "${CMAKE_CURRENT_BINARY_DIR}/test_headers.cpp")
target_precompile_headers(test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h> ${common_headers})

# What every test, and so the precompiled header, is compiled with.
add_library(test_dependencies INTERFACE)
target_include_directories(test_dependencies INTERFACE tests)
target_compile_definitions(
  test_dependencies INTERFACE BINADE_GOLDEN_DIR="${CMAKE_CURRENT_SOURCE_DIR}/tests/golden"
                              BINADE_SOURCE_DIR="${CMAKE_CURRENT_SOURCE_DIR}")
# Tests are compiled far more often than they are waited for.
target_compile_options(test_dependencies INTERFACE $<$<CONFIG:Release>:-Og>)
# GCC 12 sees overflows in string concatenation that are not there.
target_compile_options(test_dependencies INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>
                                                   $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                                                   $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>)
target_link_libraries(test_dependencies INTERFACE binade_dependencies GTest::gmock GTest::gtest_main)
target_link_libraries(test_headers PRIVATE test_dependencies)

# These tests link only the rooms up to their own; the others may use the whole library.
set(standalone_rooms base formats backend)
# These read the sources or run the program.
set(tests_without_library structure cli)
# Each file of these has its own `kernels` and `Case`.
set(tests_file_by_file backend)

foreach(folder IN LISTS test_folders)
  file(GLOB_RECURSE folder_sources CONFIGURE_DEPENDS "tests/${folder}/*.cpp")
  set(target "test_${folder}")
  add_executable(${target} ${folder_sources} ${support_sources})
  target_precompile_headers(${target} REUSE_FROM test_headers)
  if(NOT folder IN_LIST tests_file_by_file)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ${binade_unity} UNITY_BUILD_BATCH_SIZE 8)
  endif()
  if(folder IN_LIST standalone_rooms)
    target_sources(${target} PRIVATE ${binade_objects_up_to_${folder}})
  elseif(NOT folder IN_LIST tests_without_library)
    target_link_libraries(${target} PRIVATE binade)
  endif()
  target_link_libraries(${target} PRIVATE test_dependencies)
  binade_discover_suites(${target} "${folder}")
endforeach()

# These run the program.
foreach(target IN ITEMS test_cli test_bad_files)
  target_compile_definitions(${target} PRIVATE BINADE_EXECUTABLE="$<TARGET_FILE:binade_cli>"
                                               BINADE_VERSION="${PROJECT_VERSION}")
  add_dependencies(${target} binade_cli)
endforeach()
target_sources(test_bad_files PRIVATE tests/cli/command.cpp)

# A sanitized library would ask its users to link the sanitizers too.
if(TARGET binade_cli AND NOT BINADE_SANITIZE)
  add_test(
    NAME install.examples
    COMMAND
      "${CMAKE_COMMAND}" -D "source=${CMAKE_CURRENT_SOURCE_DIR}" -D "build=${CMAKE_CURRENT_BINARY_DIR}" -D
      "work=${CMAKE_CURRENT_BINARY_DIR}/install_test" -D "compiler=${CMAKE_CXX_COMPILER}" -P
      "${CMAKE_CURRENT_SOURCE_DIR}/tests/install/installed_package.cmake")
  set_tests_properties(install.examples PROPERTIES LABELS install TIMEOUT 300)
endif()
