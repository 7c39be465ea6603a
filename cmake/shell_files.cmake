# Writes the program's man pages and completions below a folder, as they go into share/:
#   cmake -D program=PROGRAM -D out=FOLDER -P cmake/shell_files.cmake
file(REMOVE_RECURSE "${out}")

function(binade_print result)
  execute_process(COMMAND "${program}" ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# The page of a command, and those of the commands that it lists.
function(binade_write_pages name)
  binade_print(page man ${ARGN})
  file(WRITE "${out}/man/man1/${name}.1" "${page}")
  string(REGEX MATCHALL "\n\\.Xr ${name}-[a-z]+ 1" below "${page}")
  foreach(line IN LISTS below)
    string(REGEX REPLACE ".*-([a-z]+) 1$" "\\1" command "${line}")
    binade_write_pages("${name}-${command}" ${ARGN} "${command}")
  endforeach()
endfunction()
binade_write_pages(binade)

foreach(file IN ITEMS bash:bash-completion/completions/binade zsh:zsh/site-functions/_binade
                      fish:fish/vendor_completions.d/binade.fish)
  string(REGEX MATCH "^([^:]+):(.+)$" file "${file}")
  set(path "${CMAKE_MATCH_2}")
  binade_print(script completions ${CMAKE_MATCH_1})
  file(WRITE "${out}/${path}" "${script}")
endforeach()
