# The threads of a test: binade_team of them, as binade_test_environment says. ctest -j runs as many tests as there are
# cores; with a team of one thread per core in each, spinning while it waits, that takes minutes. Tests of thread counts
# set their own, and BINADE_THREADS is stronger.
cmake_host_system_information(RESULT binade_team QUERY NUMBER_OF_LOGICAL_CORES)
if(binade_team GREATER 4)
  set(binade_team 4)
endif()
set(binade_test_environment OMP_WAIT_POLICY=passive OMP_NUM_THREADS=${binade_team})
