#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "binade/io/path.h"

// manifest.json of a checkpoint: the size and hash of each of its files.
namespace binade::io {

struct Manifest {
  struct File {
    int64_t bytes = 0;
    std::string hash;
  };
  int64_t step = 0;
  std::map<std::string, std::string> facts;  // "run", "data", ...: train/run/origin.h
  std::map<std::string, File> files;
};

// Fails if it is missing or damaged, naming file, expected and found.
Manifest read_manifest(const Path& checkpoint, std::string_view caller);

// The size and hash of a file.
Manifest::File describe_file(const Path& file, std::string_view caller);

// The manifest of the files in a folder: of a step, with these facts. Those in `about.files` are
// not read.
std::string manifest_text(const Path& folder, const Manifest& about, std::string_view caller);

// Compares one file of a checkpoint with its manifest.
void verify_file(const Path& checkpoint, const Manifest& manifest, const std::string& name,
                 std::string_view caller);

// Compares all files with the manifest beside them.
Manifest verify_files(const Path& checkpoint, std::string_view caller);
// Compares the files of the model: all but the state for resuming, which is much larger.
void verify_model(const Path& checkpoint, std::string_view caller);

// Gives a damaged file or folder another name, so that nothing reads it and nothing is lost:
// "NAME.damaged", with a number if there is one. Returns the new path.
Path set_aside(const Path& path, std::string_view caller);

}  // namespace binade::io
