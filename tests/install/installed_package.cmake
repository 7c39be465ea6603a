# Installs Binade, then builds and runs the examples and the program in the README against the installed package.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")
include("${source}/cmake/public_headers.cmake")

set(prefix "${work}/moved prefix")
install_to("${prefix}")

run(COMMAND "${prefix}/bin/binade" version OUTPUT version)
expect_match("${version}" "^binade [0-9]+\\.[0-9]+\\.[0-9]+\n$")

# ---- the headers: c.h, binade.h and exactly those that it includes ----
binade_public_headers(expected "${source}/src")
file(GLOB_RECURSE installed RELATIVE "${prefix}/include" "${prefix}/include/*")
list(SORT installed)
if(NOT installed STREQUAL expected)
  message(FATAL_ERROR "installed headers:\n${installed}\nexpected:\n${expected}")
endif()

# ---- the examples ----
build_against_package(examples "${source}/examples" "${prefix}")
run(COMMAND "${work}/examples/train_mlp" OUTPUT mlp)
expect_match("${mlp}" "loss")
foreach(type IN ITEMS bf16 f16)
  run(COMMAND "${work}/examples/gpt" ${type} OUTPUT gpt)
  expect_match("${gpt}" "loss")
endforeach()

run(COMMAND "${work}/examples/ranks" OUTPUT ranks)
expect_match("${ranks}" "loss")

# Both check what their model has learned of generated data.
foreach(type IN ITEMS bf16 f16)
  run(COMMAND "${work}/examples/cifar" --precision ${type} OUTPUT cifar)
  expect_match("${cifar}" "test accuracy [0-9.]+%")
endforeach()
run(COMMAND "${work}/examples/tabular" OUTPUT tabular)
expect_match("${tabular}" "R2 0\\.9")

# ---- their own data: files of the same layout, and what is wrong with others ----
string(REPEAT "x" 3073 record)
file(WRITE "${work}/cifar10/data_batch_1.bin" "${record}")
run(COMMAND "${work}/examples/cifar" "${work}/cifar10" FAILS OUTPUT message)
expect_match("${message}" "data_batch_1.bin: expected labels below 10, found 120 at byte 0")
file(WRITE "${work}/cifar10/data_batch_1.bin" "${record}x")
run(COMMAND "${work}/examples/cifar" "${work}/cifar10" FAILS OUTPUT message)
expect_match("${message}" "expected records of 3073 bytes, found 3074 bytes")

set(table "a,\"b c\",d\n")
foreach(i RANGE 1 60)
  math(EXPR double "2 * ${i}")
  string(APPEND table "${i},${double},7\n")
endforeach()
file(WRITE "${work}/table.csv" "${table}\n")  # with a blank line at its end
run(COMMAND "${work}/examples/tabular" "${work}/table.csv" "b c" OUTPUT tabular)
expect_match("${tabular}" "R2 0\\.9")
file(WRITE "${work}/table.csv" "${table}1,x,3\n")
run(COMMAND "${work}/examples/tabular" "${work}/table.csv" FAILS OUTPUT message)
expect_match("${message}" "table.csv, line 62: expected a finite number, found 'x'")

# ---- the C++ example in the README ----
file(READ "${source}/README.md" readme)
string(FIND "${readme}" "```cpp\n" begin)
if(begin EQUAL -1)
  message(FATAL_ERROR "README.md has no C++ example")
endif()
math(EXPR begin "${begin} + 7")
string(SUBSTRING "${readme}" ${begin} -1 code)
string(FIND "${code}" "```" length)
string(SUBSTRING "${code}" 0 ${length} code)
file(WRITE "${work}/readme_source/main.cpp" "${code}")
file(WRITE "${work}/readme_source/CMakeLists.txt" [[
cmake_minimum_required(VERSION 3.25)
project(readme LANGUAGES CXX)
find_package(binade REQUIRED)
add_executable(readme main.cpp)
target_link_libraries(readme PRIVATE binade::binade)
]])
build_against_package(readme "${work}/readme_source" "${prefix}")
run(COMMAND "${work}/readme/readme")

# ---- a library that a program would link is not there: an error that names it and its Debian package ----
file(WRITE "${work}/missing_source/CMakeLists.txt" [[
cmake_minimum_required(VERSION 3.25)
project(missing LANGUAGES CXX)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
set(CMAKE_FIND_USE_CMAKE_ENVIRONMENT_PATH OFF)
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)
find_package(binade REQUIRED)
]])
configure_command(command missing "${work}/missing_source" "${prefix}")
run(COMMAND ${command} FAILS OUTPUT message)
string(REGEX REPLACE "[ \n]+" " " message "${message}")
expect_match("${message}" "were not found: libfmt \\(Debian package libfmt-dev\\) libhwy")
