# libbinade.so, of the objects that the static library is made of. Before 1.0 a minor release may change the interface, so
# the name that programs ask the loader for has both numbers.
set(binade_soversion "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
add_library(binade_shared SHARED ${binade_objects})
add_library(binade::shared ALIAS binade_shared)
set_target_properties(
  binade_shared
  PROPERTIES OUTPUT_NAME binade
             EXPORT_NAME shared
             LINKER_LANGUAGE CXX
             VERSION ${PROJECT_VERSION}
             SOVERSION ${binade_soversion})
target_compile_features(binade_shared PUBLIC cxx_std_20)
target_include_directories(binade_shared PUBLIC "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/src>")
target_link_libraries(binade_shared PRIVATE binade_flags ${binade_libraries} ${OpenMP_CXX_LIBRARIES} Threads::Threads
                                            ${CMAKE_DL_LIBS} ${binade_cuda_libraries} ${binade_mpi_libraries}
                                            ${binade_nccl_libraries})
target_link_options(binade_shared PRIVATE -Wl,--no-undefined -Wl,-Bsymbolic-functions)
