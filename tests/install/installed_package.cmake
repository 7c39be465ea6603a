# Run by ctest: installs Binade, then builds and runs the examples against the installed package.
#   cmake -D source=... -D build=... -D work=... -D compiler=... -P installed_package.cmake
function(run)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUTPUT" "COMMAND")
  execute_process(
    COMMAND ${arg_COMMAND}
    RESULT_VARIABLE status
    OUTPUT_VARIABLE output
    ERROR_VARIABLE errors)
  if(NOT status EQUAL 0)
    list(JOIN arg_COMMAND " " line)
    message(NOTICE "${output}${errors}")
    message(FATAL_ERROR "ended with ${status}: ${line}")
  endif()
  message(NOTICE "${output}")
  set(${arg_OUTPUT} "${output}" PARENT_SCOPE)
endfunction()

# Configures, builds; the executables are then in ${work}/${name}.
function(build_against_package name project prefix)
  run(COMMAND "${CMAKE_COMMAND}" -G Ninja -S "${project}" -B "${work}/${name}"
              "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${compiler}"
              "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
  run(COMMAND "${CMAKE_COMMAND}" --build "${work}/${name}")
endfunction()

function(expect_match text pattern)
  if(NOT text MATCHES "${pattern}")
    message(FATAL_ERROR "expected a match of ${pattern} in:\n${text}")
  endif()
endfunction()

# ---- install, then move: the package must not remember where it was installed ----
file(REMOVE_RECURSE "${work}")
set(prefix "${work}/moved prefix")
run(COMMAND "${CMAKE_COMMAND}" --install "${build}" --prefix "${work}/prefix")
file(RENAME "${work}/prefix" "${prefix}")

run(COMMAND "${prefix}/bin/binade" version OUTPUT version)
expect_match("${version}" "^binade [0-9]+\\.[0-9]+\\.[0-9]+\n$")

# ---- the examples ----
build_against_package(examples "${source}/examples" "${prefix}")
run(COMMAND "${work}/examples/train_mlp" OUTPUT mlp)
expect_match("${mlp}" "loss")
foreach(type IN ITEMS bf16 f16)
  run(COMMAND "${work}/examples/gpt" ${type} OUTPUT gpt)
  expect_match("${gpt}" "loss")
endforeach()

# ---- the C++ example in the README ----
if(EXISTS "${source}/README.md")
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
endif()
