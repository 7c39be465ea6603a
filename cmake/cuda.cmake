# The CUDA backend as its own objects: files of the same stem as their CPU siblings.
file(GLOB cuda_sources CONFIGURE_DEPENDS src/binade/backend/cuda/*.cu src/binade/backend/cuda/*.cpp)
if(NOT cuda_sources)
  message(STATUS "BINADE_CUDA: src/binade/backend/cuda has no sources; nothing to compile")
  return()
endif()

if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90)
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

target_compile_definitions(binade_dependencies INTERFACE BINADE_CUDA)
target_link_libraries(binade_dependencies INTERFACE CUDA::cudart CUDA::cublasLt)

add_library(binade_cuda OBJECT ${cuda_sources})
# CMake 3.25.1 (Debian 12) does not know nvcc's C++20 yet, so no CUDA_STANDARD here.
target_compile_options(binade_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
target_link_libraries(binade_cuda PRIVATE binade_dependencies)
set(binade_cuda_objects $<TARGET_OBJECTS:binade_cuda>)
