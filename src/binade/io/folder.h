#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "binade/io/path.h"

namespace binade::io {

// Creates an empty folder beside `target` for what will become `target`: ".NAME.tmp-" and a random
// number, so that no two writers share one.
Path create_temporary_folder(const Path& target, std::string_view caller);

// Writes a folder atomically: under a temporary name beside it, synced to disk, then renamed.
// Without commit() the temporary folder is removed and an older folder of that name stays
// untouched. What killed writers of the same folder have left is removed first.
class AtomicFolder {
 public:
  // Of a path that is not guarded, a link stands for the folder it leads to.
  AtomicFolder(const Path& target, std::string_view caller);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Where to write until commit().
  const Path& path() const { return temporary_; }
  // Puts the folder in place. Of an older one, the entries whose names `keep` accepts and that the
  // new one does not have move into it; the rest is removed.
  void commit(const std::function<bool(const std::string& name)>& keep);
  // Puts the folder in place. Returns false if there is something of its name; another one beside
  // it may be tried then.
  bool commit_new();
  void rename_target(const std::string& name) { target_ = target_.beside(name); }

 private:
  void put_in_place();

  Path target_, temporary_;
  bool is_in_place_ = false;  // nothing is left under the temporary name
  std::string caller_;
  int lock_ = -1;  // tells a folder being written from a leftover
};

}  // namespace binade::io
