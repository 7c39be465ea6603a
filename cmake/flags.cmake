# binade_flags: the options that every target of this project is compiled with. They are options of targets, never of
# directories or CMAKE_ variables, so that a project that contains this one keeps its own.
add_library(binade_flags INTERFACE)
target_compile_features(binade_flags INTERFACE cxx_std_20)

# ccache cannot see through precompiled headers.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

# Contraction would make results depend on what the compiler chose to fuse.
set(cxx_options -ffp-contract=off -Wall -Wextra)
# Options are passed as designated initializers that name only what differs from the default.
list(APPEND cxx_options -Wno-missing-field-initializers)
if(BINADE_WERROR)
  list(APPEND cxx_options -Werror)
endif()

# Highway compiles vector code once per instruction set; these are the ones worth their compile time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  # x86-64-v2 (any CPU since 2009) makes SSE4 the baseline instead of Highway's one-lane scalar target.
  list(APPEND cxx_options -march=x86-64-v2)
  set(disabled_targets HWY_SSSE3)
  if(BINADE_SANITIZE)
    # GCC aligns the stack under AddressSanitizer to 32 bytes, less than AVX-512's registers want.
    set(disabled_targets "(HWY_SSSE3|HWY_AVX3|HWY_AVX3_DL)")
  endif()
  target_compile_definitions(binade_flags INTERFACE HWY_DISABLE_PCLMUL_AES
                                                    "HWY_DISABLED_TARGETS=${disabled_targets}")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  target_compile_definitions(
    binade_flags INTERFACE "HWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")
endif()

if(BINADE_SANITIZE)
  list(APPEND cxx_options "-fsanitize=${BINADE_SANITIZE}" -fno-omit-frame-pointer
       -fno-sanitize-recover=all)
  target_link_options(binade_flags INTERFACE "-fsanitize=${BINADE_SANITIZE}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The checks the sanitizers insert make GCC see uninitialized reads that are not there.
    list(APPEND cxx_options -Wno-maybe-uninitialized)
  endif()
endif()

# Nobody replaces functions inside the shared library, so that calls of one file may be inlined.
if(BINADE_SHARED)
  list(APPEND cxx_options -fno-semantic-interposition)
endif()

foreach(option IN LISTS cxx_options)
  target_compile_options(binade_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${option}>")
endforeach()

# The build type of the dev and asan presets compiles fast, runs fast enough for every test and shows lines in a
# backtrace. Its programs are linked after every edit, so a faster linker is used if there is one.
set(dev_options "$<$<AND:$<CONFIG:Dev>,$<COMPILE_LANGUAGE:CXX>>:-O1;-g1>")
if(CMAKE_BUILD_TYPE STREQUAL "Dev")
  find_program(BINADE_LINKER NAMES mold ld.lld)
  mark_as_advanced(BINADE_LINKER)
  if(BINADE_LINKER)
    cmake_path(GET BINADE_LINKER FILENAME linker)
    string(REGEX REPLACE "^ld\\." "" linker "${linker}")
    target_link_options(binade_flags INTERFACE "-fuse-ld=${linker}")
  endif()
endif()

# From 128 MiB on, GCC collects its garbage again and again while it compiles a batch of files: 7% of the time. Most
# batches end before this limit (in KiB), the largest needs 1 GiB with or without it.
set(release_options "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(release_options "--param=ggc-min-heapsize=524288")
endif()

# binade_compile(TARGET OPTIONS...): compiles a target by binade_flags, in Release builds with the given optimization.
function(binade_compile target)
  target_link_libraries(${target} PRIVATE binade_flags)
  target_compile_options(${target} PRIVATE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:${ARGN};${release_options}>"
                                           "${dev_options}")
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
endfunction()

# Kernels for one instruction set ask for it by `#pragma GCC target`, which Clang does not know: it gets the
# instruction set as an option of the file. Those files define nothing inline that others could be linked with.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  function(binade_instruction_set file)
    if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/src/binade/${file}")
      message(FATAL_ERROR "src/binade/${file} does not exist: cmake/flags.cmake must follow the sources")
    endif()
    # A precompiled header is of one instruction set.
    set_source_files_properties("src/binade/${file}" PROPERTIES COMPILE_OPTIONS "-Wno-unknown-pragmas;${ARGN}"
                                                                SKIP_PRECOMPILE_HEADERS ON)
  endfunction()
  set(gemm backend/cpu/gemm)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    binade_instruction_set(${gemm}/kernel_avx2.cpp -mavx2 -mfma)
    binade_instruction_set(${gemm}/kernel_avx512.cpp -mavx512f)
    binade_instruction_set(${gemm}/kernel_avx512bf16.cpp -mavx512f -mavx512bw -mavx512vl -mavx512bf16)
    binade_instruction_set(${gemm}/kernel_amx.cpp -mamx-tile -mamx-bf16)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    binade_instruction_set(${gemm}/kernel_neon.cpp)
    binade_instruction_set(${gemm}/kernel_bf16_neon.cpp -march=armv8-a+bf16)
    binade_instruction_set(${gemm}/peak_flops.cpp -march=armv8-a+bf16)
    binade_instruction_set(backend/cpu/attention/softmax.cpp -march=armv8-a+bf16)
    binade_instruction_set(backend/cpu/attention/tile.cpp -march=armv8-a+bf16)
    binade_instruction_set(formats/convert_bf16.cpp -march=armv8-a+bf16)
  endif()
endif()
