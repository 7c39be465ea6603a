#include "binade/base/process.h"

#include <cstdlib>
#include <fstream>
#include <string>

namespace binade::process {

pid_t parent_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  // "PID (name) state PPID ...", where the name may hold anything.
  const size_t name_end = line.rfind(") ");
  return name_end == std::string::npos || line.size() < name_end + 4
             ? 0
             : static_cast<pid_t>(std::atol(line.c_str() + name_end + 4));
}

}  // namespace binade::process
