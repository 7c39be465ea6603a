#include "io/system_calls.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <mutex>
#include <optional>

namespace binade::testing {
namespace {

struct Recording {
  std::vector<SystemCall> calls;
  std::optional<size_t> failing;
  int error = 0;
};

std::mutex recording_mutex;
std::optional<Recording> recording;

// What a descriptor is open for; empty where that is no file or folder.
std::filesystem::path path_of(int descriptor) {
  char name[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = ::readlink(link.c_str(), name, sizeof name);
  if (size <= 0 || name[0] != '/') return {};
  std::filesystem::path path(std::string(name, static_cast<size_t>(size)));
  return path.native().starts_with("/dev/") ? std::filesystem::path() : path;
}

// The path of a file that a call names below an open folder.
std::filesystem::path path_below(int folder, const char* name) {
  return folder == AT_FDCWD ? std::filesystem::path(name) : path_of(folder) / name;
}

enum class Outcome { unseen, noted, failed };

Outcome note(const SystemCall& call) {
  const std::lock_guard lock(recording_mutex);
  if (!recording || call.path.empty()) return Outcome::unseen;
  recording->calls.push_back(call);
  if (recording->failing != recording->calls.size() - 1) return Outcome::noted;
  errno = recording->error;
  return Outcome::failed;
}

bool is_recording() {
  const std::lock_guard lock(recording_mutex);
  return recording.has_value();
}

}  // namespace

SystemCalls::SystemCalls() {
  const std::lock_guard lock(recording_mutex);
  recording.emplace();
}

SystemCalls::~SystemCalls() {
  const std::lock_guard lock(recording_mutex);
  recording.reset();
}

void SystemCalls::fail_at(size_t index, int error) {
  const std::lock_guard lock(recording_mutex);
  recording->failing = index;
  recording->error = error;
}

std::vector<SystemCall> SystemCalls::calls() const {
  const std::lock_guard lock(recording_mutex);
  return recording->calls;
}

}  // namespace binade::testing

namespace system_calls = binade::testing;

extern "C" ssize_t write(int descriptor, const void* bytes, size_t count) {
  if (system_calls::is_recording() &&
      system_calls::note({"write", system_calls::path_of(descriptor)}) ==
          system_calls::Outcome::failed)
    return -1;
  return ::syscall(SYS_write, descriptor, bytes, count);
}

extern "C" int fsync(int descriptor) {
  if (!system_calls::is_recording()) return static_cast<int>(::syscall(SYS_fsync, descriptor));
  return system_calls::note({"fsync", system_calls::path_of(descriptor)}) ==
                 system_calls::Outcome::failed
             ? -1
             : 0;
}

extern "C" int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  if (system_calls::is_recording() &&
      system_calls::note({"rename", system_calls::path_below(from_folder, from),
                          system_calls::path_below(to_folder, to)}) ==
          system_calls::Outcome::failed)
    return -1;
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
}
