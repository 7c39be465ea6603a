#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace binade::io {

// An open folder: the handle stays with the folder when it is renamed. Copies share it.
class Directory {
 public:
  // The path may be a link. Fails as `caller` if there is no folder.
  Directory(const std::filesystem::path& path, std::string_view caller);

  // The path that it was opened by; if that means another folder by now, the one that the system
  // knows.
  std::filesystem::path path() const;
  // Someone has given the folder this path.
  void set_path(const std::filesystem::path& path) const;
  int descriptor() const;

 private:
  struct Handle;
  std::shared_ptr<Handle> handle_;
};

// What stands under a name.
enum class EntryKind : uint8_t { nothing, file, folder, link, other };

// Where a file or folder is. One that the user names follows links, as in any program. One below a
// Directory is guarded: it is opened from the folder's handle, name by name, and neither a link nor
// anything else but files and folders is accepted on the way, so that a folder of someone else
// leads nowhere.
class Path {
 public:
  Path() = default;
  template <class T>
  requires(!std::same_as<T, Path> && std::convertible_to<const T&, std::filesystem::path>)
      Path(const T& path)
      : names_(path) {}
  Path(Directory root, std::filesystem::path below = {})
      : root_(std::make_shared<const Directory>(std::move(root))), names_(std::move(below)) {}

  bool empty() const { return !is_guarded() && names_.empty(); }
  bool is_guarded() const { return root_ != nullptr; }
  Path operator/(const std::filesystem::path& below) const;
  // Another name in the same folder.
  Path beside(const std::string& name) const;
  Path parent_path() const;
  std::string filename() const { return names_.filename().string(); }
  // As an ordinary path, with the root's present name: for messages, and for readers that need
  // no guard.
  std::filesystem::path plain() const;
  std::string string() const { return plain().string(); }

  // Links count as such only if the path is guarded.
  EntryKind kind() const;
  bool exists() const { return kind() != EntryKind::nothing; }
  // Whether there is anything of that name, a link that leads nowhere included.
  bool is_taken() const;
  // Of a guarded path: fails as `caller` if a name on the way, or this one, is something else than
  // it should be. A name that is missing is no failure.
  void require(EntryKind expected, std::string_view caller) const;
  // Of a guarded path: require(), also of every file and folder below this one.
  void require_folder_of_files(std::string_view caller) const;

  // As the system calls of these names: a descriptor or -1; false with errno set.
  int open(int flags, unsigned int mode = 0) const;
  bool rename_to(const Path& to, unsigned int flags = 0) const;
  bool unlink() const;
  // The names in a folder; none if it cannot be read.
  std::vector<std::string> names() const;
  // Creates a folder; false with errno set if something of that name exists or it cannot be made.
  bool make_new_folder() const;
  // Creates a folder, with those above it unless the path is guarded, if it is missing. Fails as
  // `caller`.
  void make_folder(std::string_view caller) const;
  // Removes a file, a link or a folder with all that is in it; follows no link. What cannot be
  // removed stays.
  void remove_all() const;

 private:
  struct Parent;

  std::shared_ptr<const Directory> root_;
  std::filesystem::path names_;  // below the root, if there is one
};

// What an entry is, in words: "a link to /elsewhere", "a folder".
std::string describe_entry(const Path& path);

}  // namespace binade::io
