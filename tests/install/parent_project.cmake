# Configures the project parent/, which contains Binade and checks that it stays as it was. With -D program=ON also
# builds and runs its program, which takes minutes.
#   -D how=add_subdirectory or FetchContent
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

file(REMOVE_RECURSE "${work}")
run(COMMAND "${CMAKE_COMMAND}" -G Ninja -S "${CMAKE_CURRENT_LIST_DIR}/parent" -B "${work}" -D "how=${how}" -D
            "binade_folder=${source}" -D "CMAKE_CXX_COMPILER=${compiler}")
if(program)
  run(COMMAND "${CMAKE_COMMAND}" --build "${work}" --target program)
  run(COMMAND "${work}/program" OUTPUT output)
  expect_match("${output}" "^sum 6\n$")
endif()
