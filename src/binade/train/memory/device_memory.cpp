#include "binade/train/memory/device_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "binade/backend/gpu.h"

namespace binade::train {
namespace {

// The number in a file of one, such as a control group's; `otherwise` if there is none ("max").
int64_t number_in(const char* path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? number : otherwise;
}

int64_t machine_memory() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

int64_t group_limit() { return number_in("/sys/fs/cgroup/memory.max", INT64_MAX); }

// Free pages and those that files have borrowed.
int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  for (int64_t kib = 0; file >> name >> kib; file.ignore(64, '\n')) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

}  // namespace

int64_t total_memory(Device device) {
  const auto& gpus = backend::gpus();
  const auto index = static_cast<size_t>(device.index);
  if (device.is_cuda()) return index < gpus.size() ? gpus[index].memory : 0;
  return std::min(machine_memory(), group_limit());
}

int64_t free_memory(Device device) {
  if (device.is_cuda()) return backend::free_memory(device);
  const int64_t used = number_in("/sys/fs/cgroup/memory.current", 0);
  return std::min(available_memory(), std::max<int64_t>(group_limit() - used, 0));
}

}  // namespace binade::train
