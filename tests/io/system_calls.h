#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

// The calls that make files durable, seen and made to fail: the executable that links this has its
// own write, fsync and rename.
namespace binade::testing {

struct SystemCall {
  std::string name;  // "write", "fsync" or "rename"
  std::filesystem::path path;
  std::filesystem::path to = {};  // of a rename
};

// For its lifetime, notes the calls of all threads on files and folders. Nothing is synchronized
// with the disk meanwhile, which takes milliseconds each time. One at a time.
class SystemCalls {
 public:
  SystemCalls();
  ~SystemCalls();
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;

  // The call of this index, counted from 0, fails with `error` (errno).
  void fail_at(size_t index, int error);
  std::vector<SystemCall> calls() const;
};

}  // namespace binade::testing
