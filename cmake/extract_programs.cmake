# cmake -D files=A,B -D out=HEADER -P extract_programs.cmake: writes the C++ programs in Markdown files (blocks with a
# main) as one header, each in a namespace of its own, and a table of them. One translation unit compiles faster than many.
cmake_minimum_required(VERSION 3.25)

string(REPLACE "," ";" files "${files}")
set(fence "\n```cpp\n")
string(LENGTH "${fence}" fence_length)

set(includes "")
set(programs "")
set(table "")
set(count 0)
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" rest)
  while(TRUE)
    string(FIND "${rest}" "${fence}" begin)
    if(begin EQUAL -1)
      break()
    endif()
    math(EXPR begin "${begin} + ${fence_length}")
    string(SUBSTRING "${rest}" ${begin} -1 rest)
    string(FIND "${rest}" "\n```\n" end)
    string(SUBSTRING "${rest}" 0 ${end} program)
    string(SUBSTRING "${rest}" ${end} -1 rest)
    string(FIND "${program}" "int main()" main)
    if(main EQUAL -1)
      continue()
    endif()
    math(EXPR count "${count} + 1")
    string(REGEX MATCHALL "#include [^\n]*" lines "${program}")
    list(APPEND includes ${lines})
    string(REGEX REPLACE "\n#include [^\n]*" "" program "\n${program}")
    string(APPEND programs "namespace program_${count} {\n${program}\n}  // namespace program_${count}\n\n")
    string(APPEND table "    {\"${name}, program ${count}\", program_${count}::main},\n")
  endwhile()
endforeach()
list(REMOVE_DUPLICATES includes)
list(JOIN includes "\n" includes)

file(WRITE "${out}"
"// Written by cmake/extract_programs.cmake.
${includes}

namespace document_programs {

${programs}struct Program {
  const char* name;
  int (*main)();
};
inline constexpr Program programs[] = {
${table}};

}  // namespace document_programs
")
