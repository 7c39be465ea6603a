# cmake -D list=FILE -D out=FILE -P concatenate.cmake: the files that `list` names, one after another.
file(STRINGS "${list}" names)
set(command "${CMAKE_COMMAND}" -E cat ${names})
execute_process(COMMAND ${command} OUTPUT_FILE "${out}" RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  file(REMOVE "${out}")
  message(FATAL_ERROR "cannot gather ${out}")
endif()
