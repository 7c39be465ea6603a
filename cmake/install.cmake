# cmake --install: the public headers, the libraries, the program, find_package(binade) and pkg-config. Components: runtime
# (what a linked program needs), development, program.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

file(TO_CMAKE_PATH "$ENV{CMAKE_PREFIX_PATH}" binade_environment_prefixes)
set(binade_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/binade")
install(TARGETS binade EXPORT binade_targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development
        INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
if(BINADE_SHARED)
  install(TARGETS binade_shared EXPORT binade_targets
          LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT development
          INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
endif()
install(EXPORT binade_targets FILE binade-targets.cmake NAMESPACE binade:: DESTINATION "${binade_config_dir}"
        COMPONENT development)
if(TARGET binade_cli)
  install(TARGETS binade_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program)
  install(DIRECTORY recipes DESTINATION "${CMAKE_INSTALL_DATADIR}/binade" COMPONENT program)
  # The program itself writes them, so they cannot be made for a processor that this one does not run.
  if(NOT CMAKE_CROSSCOMPILING)
    install(CODE "execute_process(
      COMMAND \"${CMAKE_COMMAND}\" -D \"program=$<TARGET_FILE:binade_cli>\" -D
              \"out=${CMAKE_CURRENT_BINARY_DIR}/shell\" -P \"${CMAKE_CURRENT_SOURCE_DIR}/cmake/shell_files.cmake\"
      COMMAND_ERROR_IS_FATAL ANY)" COMPONENT program)
    install(DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/shell/" DESTINATION "${CMAKE_INSTALL_DATADIR}" COMPONENT program)
  endif()
endif()

# Libraries that this build found below CMAKE_PREFIX_PATH are not where the loader looks by itself.
set(binade_installed_rpath "")
foreach(folder IN LISTS CMAKE_PREFIX_PATH binade_environment_prefixes)
  foreach(libraries IN ITEMS "${CMAKE_INSTALL_LIBDIR}" lib)
    if(EXISTS "${folder}/${libraries}")
      list(APPEND binade_installed_rpath "${folder}/${libraries}")
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES binade_installed_rpath)
foreach(target IN ITEMS binade_cli binade_shared)
  if(TARGET ${target})
    set_property(TARGET ${target} APPEND PROPERTY INSTALL_RPATH ${binade_installed_rpath})
  endif()
endforeach()

# Followed when installing: an edit may have changed what binade.h includes since CMake ran.
install(CODE "
  cmake_policy(SET CMP0011 NEW)  # the file sets policies for itself alone
  include(\"${CMAKE_CURRENT_SOURCE_DIR}/cmake/public_headers.cmake\")
  binade_public_headers(headers \"${CMAKE_CURRENT_SOURCE_DIR}/src\")
  foreach(header IN LISTS headers)
    cmake_path(GET header PARENT_PATH folder)
    file(INSTALL \"${CMAKE_CURRENT_SOURCE_DIR}/src/\${header}\"
         DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/\${folder}\")
  endforeach()
" COMPONENT development)

# What the compiler's own installation provides: by name, wherever the user's compiler has it.
set(binade_system_libraries ${OpenMP_CXX_LIB_NAMES} ${CMAKE_THREAD_LIBS_INIT} ${CMAKE_DL_LIBS})
list(REMOVE_DUPLICATES binade_system_libraries)
configure_package_config_file(cmake/binade-config.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/binade-config.cmake"
                              INSTALL_DESTINATION "${binade_config_dir}")
# Before 1.0 a minor release may change the interface.
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/binade-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/binade-config.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/binade-config-version.cmake" DESTINATION "${binade_config_dir}"
        COMPONENT development)
install(FILES cmake/link_libraries.cmake DESTINATION "${binade_config_dir}" RENAME binade-link-libraries.cmake
        COMPONENT development)

# ---- pkg-config ----
set(binade_pc_private "")
foreach(library IN LISTS binade_library_names binade_system_libraries)
  string(APPEND binade_pc_private " ${library}")
endforeach()
if(binade_has_mpi)
  string(APPEND binade_pc_private " mpi")
endif()
string(REGEX REPLACE " ([^ -])" " -l\\1" binade_pc_private "${binade_pc_private}")
configure_file(cmake/binade.pc.in "${CMAKE_CURRENT_BINARY_DIR}/binade.pc" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/binade.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
        COMPONENT development)

if(PROJECT_IS_TOP_LEVEL AND BINADE_SHARED)
  include(cmake/package.cmake)
endif()
