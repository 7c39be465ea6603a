#include "binade/lab/other_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>

namespace binade::lab {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

// The first line of /proc/stat has, for all CPUs together, the ticks spent in user, nice, system,
// idle, iowait, irq, softirq and steal. What a hypervisor steals was used by others, too.
OtherLoad::Times OtherLoad::now() {
  std::ifstream file("/proc/stat");
  std::string name;
  std::array<double, 8> ticks = {};
  file >> name;
  for (double& one : ticks) file >> one;
  if (!file || name != "cpu") return {};
  constexpr size_t idle = 3, waiting = 4;
  Times times;
  for (size_t i = 0; i < ticks.size(); ++i) {
    times.all += ticks[i];
    if (i != idle && i != waiting) times.busy += ticks[i];
  }
  const auto per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  times.all /= per_second;
  times.busy /= per_second;
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0)
    times.own = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  return times;
}

OtherLoad::OtherLoad() : begin_(now()) {}

double OtherLoad::fraction() const {
  const Times end = now();
  const double all = end.all - begin_.all;
  if (!(all > 0)) return 0;
  const double others = (end.busy - begin_.busy) - (end.own - begin_.own);
  return std::clamp(others / all, 0.0, 1.0);
}

}  // namespace binade::lab
