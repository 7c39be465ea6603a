# The threads of a test: binade_team of them, and binade_test_environment, which says so. ctest -j runs as many tests as
# there are cores; with a team of one thread per core in each, spinning while it waits, that takes minutes. What the
# caller's environment sets is left as it is. Tests of thread counts set their own.
cmake_host_system_information(RESULT binade_team QUERY NUMBER_OF_LOGICAL_CORES)
if(binade_team GREATER 4)
  set(binade_team 4)
endif()
set(binade_test_environment "")
if("$ENV{OMP_WAIT_POLICY}" STREQUAL "")
  list(APPEND binade_test_environment OMP_WAIT_POLICY=passive)
endif()
if("$ENV{OMP_NUM_THREADS}" STREQUAL "")
  list(APPEND binade_test_environment OMP_NUM_THREADS=${binade_team})
endif()
