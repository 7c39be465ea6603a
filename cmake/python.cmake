# The Python package: the extension module _binade over the library, with the package's Python files around it.
# Sets binade_python_missing to what this machine lacks for it; empty if it is built.
set(binade_python_missing "")
find_package(Python 3.9 QUIET COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
if(NOT Python_FOUND)
  set(binade_python_missing "Python 3.9 or newer with its headers")
else()
  execute_process(COMMAND "${Python_EXECUTABLE}" -c "import numpy, nanobind; print(nanobind.cmake_dir())"
                  OUTPUT_VARIABLE nanobind_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                  RESULT_VARIABLE failed)
  if(failed AND BINADE_PYTHON STREQUAL "ON")
    # pip installs nanobind for the build alone, without what the package needs to run.
    execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_DIR
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  endif()
  if(failed)
    set(binade_python_missing "nanobind and numpy for ${Python_EXECUTABLE}")
  endif()
endif()
if(binade_python_missing)
  if(BINADE_PYTHON STREQUAL "ON")
    message(FATAL_ERROR "BINADE_PYTHON needs ${binade_python_missing}")
  endif()
  return()
endif()

# pip shows nothing of a build unless asked (-v), so that minutes of compiling look like a hang: a line on the terminal,
# if there is one, says what to expect.
if(DEFINED SKBUILD)
  cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
  math(EXPR minutes "(8 + ${cores} - 1) / ${cores}")
  set(notice "binade: compiling takes about 8 minutes of processor time, ${minutes} on these ${cores} cores; pip -v shows it")
  message(STATUS "${notice}")
  execute_process(COMMAND sh -c "echo \"$1\" >/dev/tty" sh "${notice}" ERROR_QUIET OUTPUT_QUIET)
endif()

find_package(nanobind CONFIG REQUIRED)
file(GLOB python_sources CONFIGURE_DEPENDS python/src/*.cpp)
nanobind_add_module(_binade STABLE_ABI NB_STATIC NB_SUPPRESS_WARNINGS ${python_sources})
target_link_libraries(_binade PRIVATE binade binade_dependencies)
# Bindings are never hot, but nanobind's templates are slow to compile.
binade_compile(_binade -O1)
target_precompile_headers(_binade PRIVATE python/src/bindings.h)
set_target_properties(_binade PROPERTIES UNITY_BUILD ${BINADE_UNITY} UNITY_BUILD_BATCH_SIZE 8)
# GCC notes that C++14 and C++17 pass some pairs differently; nothing here is called from C++14.
target_compile_options(_binade PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-psabi>)
# Another extension in the same process may carry other versions of the same libraries.
target_link_options(_binade PRIVATE -Wl,--exclude-libs,ALL)

# The package as it is installed, in the build folder.
set(binade_python_path "${CMAKE_CURRENT_BINARY_DIR}/python")
set_target_properties(_binade PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${binade_python_path}/binade")
add_custom_target(
  binade_python ALL
  COMMAND "${CMAKE_COMMAND}" -E copy_directory "${CMAKE_CURRENT_SOURCE_DIR}/python/binade"
          "${binade_python_path}/binade"
  DEPENDS _binade
  VERBATIM)

install(TARGETS _binade LIBRARY DESTINATION binade COMPONENT python EXCLUDE_FROM_ALL)
if(TARGET binade_cli)
  install(TARGETS binade_cli RUNTIME DESTINATION binade/bin COMPONENT python EXCLUDE_FROM_ALL)
endif()
install(
  CODE "execute_process(
  COMMAND \"${Python_EXECUTABLE}\" \"${CMAKE_CURRENT_SOURCE_DIR}/python/src/make_stubs.py\"
          \"\${CMAKE_INSTALL_PREFIX}/binade\" \"${CMAKE_CURRENT_SOURCE_DIR}/python/src/stubs.txt\"
          \"\${CMAKE_INSTALL_PREFIX}/binade/_binade.pyi\"
  COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT python EXCLUDE_FROM_ALL)
