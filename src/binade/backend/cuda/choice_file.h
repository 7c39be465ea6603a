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
