# Read by ctest: lists the suites of one GoogleTest executable and adds a test for each.
# One process per suite instead of per case keeps a run of thousands of cases fast.
# Labels: the component; and slow, gpu, net, fuzz or mpi by the suite's name (FooSlow, FooGpu, ...).
# Sanitizers look for leaks when a process ends, which takes seconds: one process for all suites. They find MPI's own, so
# suites that run mpirun are left out, and so is the one that walks code of other suites for minutes: all models in all
# arithmetics.
include("${CMAKE_CURRENT_LIST_DIR}/test_environment.cmake")
if(binade_test_in_one_process)
  set(name "${binade_test_label}.all")
  add_test("${name}" "${binade_test_executable}" --gtest_brief=1
           "--gtest_filter=-*Slow.*:*Slow/*:*Gpu.*:*Gpu/*:*Net.*:*Net/*:*Fuzz.*:*Fuzz/*:*Mpi.*:Models/SameToken.*")
  set_tests_properties(
    "${name}" PROPERTIES LABELS "${binade_test_label}" WORKING_DIRECTORY "${binade_test_directory}"
                         TIMEOUT 1500 ENVIRONMENT "${binade_test_environment}")
  return()
endif()

execute_process(
  COMMAND "${binade_test_executable}" --gtest_list_tests
  OUTPUT_VARIABLE listing
  RESULT_VARIABLE status
  ERROR_VARIABLE errors)
if(NOT status EQUAL 0)
  # Not built, or it does not start: one entry that fails and says so.
  add_test("${binade_test_label}.not_built" "${binade_test_executable}" --gtest_list_tests)
  set_tests_properties("${binade_test_label}.not_built" PROPERTIES LABELS "${binade_test_label}" ENVIRONMENT
                                                                   "${binade_test_environment}")
  return()
endif()

string(REPLACE ";" "," listing "${listing}")
string(REPLACE "\n" ";" listing "${listing}")
foreach(line IN LISTS listing)
  # A suite's line starts in column 0 and its name ends in a dot; its cases are indented.
  if(NOT line MATCHES "^([^ ]+)\\.( |$)")
    continue()
  endif()
  set(suite "${CMAKE_MATCH_1}")
  set(labels "${binade_test_label}")
  foreach(kind IN ITEMS Slow Gpu Net Fuzz Mpi)
    if(suite MATCHES "${kind}(/[0-9]+)?$")
      string(TOLOWER "${kind}" kind_label)
      list(APPEND labels "${kind_label}")
    endif()
  endforeach()
  set(name "${binade_test_label}.${suite}")
  add_test("${name}" "${binade_test_executable}" "--gtest_filter=${suite}.*" --gtest_brief=1)
  set_tests_properties(
    "${name}" PROPERTIES LABELS "${labels}" WORKING_DIRECTORY "${binade_test_directory}" TIMEOUT 1500
                         ENVIRONMENT "${binade_test_environment}")
  if(labels MATCHES "mpi")  # ranks that wait for each other, or start, half of the time
    math(EXPR processors "(${binade_team} + 1) / 2")
    set_tests_properties("${name}" PROPERTIES PROCESSORS ${processors})
  endif()
endforeach()
