# The CUDA backend as its own objects: files of the same stem as their CPU siblings.
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS src/binade/backend/cuda/*.cu src/binade/backend/cuda/*.cpp)

# Machine code for sm_80 (which all 8.x GPUs run) and Hopper; later GPUs compile the PTX of sm_80.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90a-real)
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # one runtime for our code and the libraries
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

# The libraries that every program with the CUDA backend links: names for the installed package, files here.
set(binade_cuda_library_names cudart cublasLt)
set(binade_cuda_libraries "")
foreach(library IN LISTS binade_cuda_library_names)
  get_target_property(file CUDA::${library} IMPORTED_LOCATION)
  list(APPEND binade_cuda_libraries "${file}")
endforeach()

# cuDNN is optional: without it, attention and convolution run on kernels of our own.
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_TARGET_DIR}/lib)
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h)
if(CUDNN_INCLUDE_DIR AND CUDNN_LIBRARY AND CUDNN_FRONTEND_INCLUDE_DIR)
  message(STATUS "cuDNN: ${CUDNN_LIBRARY}, frontend: ${CUDNN_FRONTEND_INCLUDE_DIR}")
  set(binade_cudnn ON)
  # Not CUDA::nvrtc, which brings the driver's library: a program linked to that starts on GPU machines only.
  list(APPEND binade_cuda_library_names cudnn nvrtc)
  list(APPEND binade_cuda_libraries "${CUDNN_LIBRARY}" "${CUDA_nvrtc_LIBRARY}")
else()
  message(STATUS "cuDNN: left out (needs cudnn.h, libcudnn and cudnn_frontend.h; see CMAKE_PREFIX_PATH)")
  set(binade_cudnn OFF)
endif()

target_compile_definitions(binade_dependencies INTERFACE BINADE_CUDA
                                                         $<$<BOOL:${binade_cudnn}>:BINADE_CUDNN>)
target_include_directories(binade_dependencies SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(binade_dependencies INTERFACE ${binade_cuda_libraries})

add_library(binade_cuda OBJECT ${cuda_sources})
binade_compile(binade_cuda -O2 -ftree-vectorize)
# CMake 3.25.1 (Debian 12) does not know nvcc's C++20 yet, so no CUDA_STANDARD here.
target_compile_options(
  binade_cuda
  PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>
          $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>
          $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall>
          $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<CONFIG:Release>>:-O3>)
if(BINADE_WERROR)
  target_compile_options(binade_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
target_link_libraries(binade_cuda PRIVATE binade_dependencies)
# Kernels with Hopper's matmul instructions exist for this architecture only.
if("${CMAKE_CUDA_ARCHITECTURES}" MATCHES "90a")
  target_compile_definitions(binade_cuda PRIVATE BINADE_SM90A)
endif()
if(binade_cudnn)
  target_compile_definitions(binade_cuda PRIVATE CUDNN_FRONTEND_SKIP_JSON_LIB)
  target_include_directories(binade_cuda SYSTEM PRIVATE "${CUDNN_INCLUDE_DIR}"
                                                        "${CUDNN_FRONTEND_INCLUDE_DIR}")
endif()
set(binade_cuda_objects $<TARGET_OBJECTS:binade_cuda>)
