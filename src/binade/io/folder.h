#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace binade::io {

// Creates an empty folder beside `target` for what will become `target`: ".NAME.tmp-" and a random
// number, so that no two writers share one.
std::filesystem::path create_temporary_folder(const std::filesystem::path& target,
                                              std::string_view caller);

// Writes a folder atomically: under a temporary name beside it, synced to disk, then renamed.
// Without commit() the temporary folder is removed and an older folder of that name stays
// untouched. What killed writers of the same folder have left is removed first.
class AtomicFolder {
 public:
  AtomicFolder(std::filesystem::path target, std::string_view caller);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Where to write until commit().
  const std::filesystem::path& path() const { return temporary_; }
  // Puts the folder in place. Of an older one, the entries whose names `keep` accepts and that the
  // new one does not have move into it; the rest is removed.
  void commit(const std::function<bool(const std::string& name)>& keep);

 private:
  void put_in_place();

  std::filesystem::path target_, temporary_;
  std::string caller_;
  int lock_ = -1;  // tells a folder being written from a leftover
};

}  // namespace binade::io
