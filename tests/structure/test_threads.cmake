# Every test of a build has thread settings: -D build=FOLDER. Without them, ctest -j on many cores takes minutes.
execute_process(COMMAND "${CMAKE_CTEST_COMMAND}" --test-dir "${build}" --show-only=json-v1 OUTPUT_VARIABLE tests
                RESULT_VARIABLE status)
string(REGEX MATCHALL "\"WORKING_DIRECTORY\"" commands "${tests}")  # one per test
string(REGEX MATCHALL "\"OMP_WAIT_POLICY=passive\"" settings "${tests}")
list(LENGTH commands count)
list(LENGTH settings set)
if(NOT status EQUAL 0 OR count EQUAL 0 OR NOT count EQUAL set)
  message(FATAL_ERROR "${set} of ${count} tests have thread settings (cmake/test_environment.cmake)")
endif()
