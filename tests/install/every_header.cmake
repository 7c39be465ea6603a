# Installs Binade and compiles every installed header by itself: each includes what it uses, and nothing that is not
# installed.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

set(prefix "${work}/prefix of headers")
install_to("${prefix}")

file(GLOB_RECURSE headers RELATIVE "${prefix}/include" "${prefix}/include/*.h")
list(LENGTH headers count)
if(count LESS 10)
  message(FATAL_ERROR "only ${count} headers were installed")
endif()
foreach(header IN LISTS headers)
  string(MAKE_C_IDENTIFIER "${header}" name)
  file(WRITE "${work}/headers_source/${name}.cpp" "#include <${header}>\n")
endforeach()
file(WRITE "${work}/headers_source/CMakeLists.txt" [[
cmake_minimum_required(VERSION 3.25)
project(headers LANGUAGES CXX)
find_package(binade REQUIRED)
file(GLOB sources *.cpp)
add_library(headers OBJECT ${sources})
target_link_libraries(headers PRIVATE binade::binade)
]])
build_against_package(headers "${work}/headers_source" "${prefix}")
message(NOTICE "${count} headers compile by themselves")
