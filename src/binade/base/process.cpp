#include "binade/base/process.h"

#include <cstdlib>
#include <fstream>
#include <string>

namespace binade::process {
namespace {

// "state PPID ..." of a process, or nothing.
std::string state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(") ");  // behind "PID (name", where the name may hold anything
  return name_end == std::string::npos ? std::string() : line.substr(name_end + 2);
}

}  // namespace

pid_t parent_of(pid_t pid) {
  const std::string state = state_of(pid);
  return state.size() < 2 ? 0 : static_cast<pid_t>(std::atol(state.c_str() + 2));
}

bool has_ended(pid_t pid) {
  const std::string state = state_of(pid);
  return state.empty() || state[0] == 'Z' || state[0] == 'X';
}

}  // namespace binade::process
