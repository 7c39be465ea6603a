# Functions of the tests in this folder, which ctest runs as
#   cmake -D source=... -D build=... -D work=... -D compiler=... -P TEST.cmake

# run(COMMAND ... [OUTPUT variable] [FAILS]): runs a command that must succeed, or fail where FAILS is given.
function(run)
  cmake_parse_arguments(PARSE_ARGV 0 arg "FAILS" "OUTPUT" "COMMAND")
  execute_process(
    COMMAND ${arg_COMMAND}
    RESULT_VARIABLE status
    OUTPUT_VARIABLE output
    ERROR_VARIABLE errors)
  message(NOTICE "${output}${errors}")
  if(arg_FAILS AND status EQUAL 0 OR NOT arg_FAILS AND NOT status EQUAL 0)
    list(JOIN arg_COMMAND " " line)
    message(FATAL_ERROR "ended with ${status}: ${line}")
  endif()
  set(${arg_OUTPUT} "${output}${errors}" PARENT_SCOPE)
endfunction()

function(expect_match text pattern)
  if(NOT text MATCHES "${pattern}")
    message(FATAL_ERROR "expected a match of ${pattern} in:\n${text}")
  endif()
endfunction()

# Installs, then moves the result to `prefix`: the package must not remember where it was installed.
function(install_to prefix)
  file(REMOVE_RECURSE "${work}")
  run(COMMAND "${CMAKE_COMMAND}" --install "${build}" --prefix "${work}/prefix")
  file(RENAME "${work}/prefix" "${prefix}")
endfunction()

# The command that configures a project against the installed package, without the CMake packages of the libraries that
# Binade itself is built from.
function(configure_command out name project prefix)
  set(command "${CMAKE_COMMAND}" -G Ninja -S "${project}" -B "${work}/${name}" "-DCMAKE_PREFIX_PATH=${prefix}"
              "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
  foreach(package IN ITEMS fmt hwy nlohmann_json tomlplusplus SentencePiece CLI11 OpenMP Threads)
    list(APPEND command "-DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON" "--no-warn-unused-cli")
  endforeach()
  set(${out} "${command}" PARENT_SCOPE)
endfunction()

# Configures and builds; the executables are then in ${work}/${name}.
function(build_against_package name project prefix)
  configure_command(command "${name}" "${project}" "${prefix}")
  run(COMMAND ${command})
  run(COMMAND "${CMAKE_COMMAND}" --build "${work}/${name}")
endfunction()
