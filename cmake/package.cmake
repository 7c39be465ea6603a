# cmake --build build/release --target package: Debian packages and a .tar.gz. The packages are those that Debian would
# make of a library: libbinade0.1 (what linked programs need), libbinade-dev, and binade (the program).
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME binade)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_CONTACT "Binade's authors")
set(CPACK_PACKAGE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/packages")
set(CPACK_RESOURCE_FILE_LICENSE "${CMAKE_CURRENT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime development program)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)  # one archive of everything

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # the libraries that the binaries link, by the versions of this system
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libbinade${binade_soversion})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libbinade-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
if(binade_has_mpi)
  list(APPEND binade_library_packages libopenmpi-dev)
endif()
list(REMOVE_DUPLICATES binade_library_packages)
list(JOIN binade_library_packages ", " binade_development_depends)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "libbinade${binade_soversion} (= ${PROJECT_VERSION}), ${binade_development_depends}")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME binade)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
include(CPack)
