# What every target of this project is compiled with, as one interface target: binade_flags.
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -ftree-vectorize -DNDEBUG")
# The build type of the asan preset: fast enough to run every test, lines enough to read a report.
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1")

# ccache cannot see through precompiled headers.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

add_library(binade_flags INTERFACE)
target_compile_features(binade_flags INTERFACE cxx_std_20)

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

foreach(option IN LISTS cxx_options)
  target_compile_options(binade_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${option}>")
endforeach()
