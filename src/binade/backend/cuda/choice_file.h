#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "binade/backend/gpu.h"

namespace binade::backend::cuda {

// Remembers on disk which of a library's algorithms was fastest for a problem, so that later
// processes choose the same one.
class ChoiceFile {
 public:
  // Reads the choices for this GPU model and version of the library from $XDG_CACHE_HOME/binade or
  // ~/.cache/binade. Without either, choices last for this process only.
  ChoiceFile(std::string_view library, size_t version, const Gpu& gpu);

  std::optional<std::string> find(const std::string& problem) const;
  // find() that knows choices which other processes have added meanwhile.
  std::optional<std::string> find_again(const std::string& problem);
  // For its lifetime, other processes with the same file wait in its constructor: the ranks of a
  // run must compute alike, so the first to meet a problem tunes it for all. Without a file, or if
  // it cannot be locked, nobody waits.
  class [[nodiscard]] Lock {
   public:
    explicit Lock(const ChoiceFile& file);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    int descriptor_ = -1;
  };
  // Adds a choice and rewrites the file, keeping choices that other processes have added meanwhile.
  // Neither text contains bars or line breaks. Failing to write is not an error: the next process
  // tunes again.
  void add(const std::string& problem, const std::string& choice);

 private:
  void read();
  void write() const;

  std::filesystem::path path_;  // empty: no file
  std::string header_;          // first line; files with another one are ignored
  std::map<std::string, std::string> choices_;
};

}  // namespace binade::backend::cuda
