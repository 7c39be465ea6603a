# cmake --install: headers, the static library, the command, and find_package(binade).
include(CMakePackageConfigHelpers)

set(binade_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/binade")
install(TARGETS binade EXPORT binade_targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(
  DIRECTORY src/binade/
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/binade"
  FILES_MATCHING
  PATTERN "*.h"
  PATTERN "*.def"
  PATTERN "*-inl.h" EXCLUDE
  PATTERN "cli" EXCLUDE)
install(EXPORT binade_targets FILE binade-targets.cmake NAMESPACE binade:: DESTINATION "${binade_config_dir}")
if(TARGET binade_cli)
  install(TARGETS binade_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

configure_package_config_file(cmake/binade-config.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/binade-config.cmake"
                              INSTALL_DESTINATION "${binade_config_dir}")
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/binade-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/binade-config.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/binade-config-version.cmake" cmake/FindSentencePiece.cmake
        DESTINATION "${binade_config_dir}")
