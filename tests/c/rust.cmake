# Builds and runs train.rs with rustc against libbinade.so.
execute_process(COMMAND "${rustc}" --edition 2021 -O -o "${build}/test_rust" "${source}/tests/c/train.rs" -L "${build}" -l
                        dylib=binade -C "link-arg=-Wl,-rpath,${build}" RESULT_VARIABLE status)
if(status EQUAL 0)
  execute_process(COMMAND "${build}/test_rust" RESULT_VARIABLE status)
endif()
if(NOT status EQUAL 0)
  message(FATAL_ERROR "ended with ${status}")
endif()
