#include "binade/backend/cuda/choice_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <fstream>

namespace binade::backend::cuda {
namespace {

namespace fs = std::filesystem;

fs::path choices_folder() {
  const char* base = std::getenv("XDG_CACHE_HOME");
  if (base != nullptr && fs::path(base).is_absolute()) return fs::path(base) / "binade";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? fs::path(home) / ".cache" / "binade" : fs::path();
}

}  // namespace

ChoiceFile::ChoiceFile(std::string_view library, size_t version, const Gpu& gpu)
    : header_(fmt::format("binade {} {} {} {}", library, gpu.name, version, gpu.multiprocessors)) {
  const fs::path folder = choices_folder();
  if (folder.empty()) return;
  std::string name = fmt::format("{}-{}-{}", library, gpu.name, version);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '-';
  }
  path_ = folder / (name + ".txt");
  read();
}

std::optional<std::string> ChoiceFile::find(const std::string& problem) const {
  const auto found = choices_.find(problem);
  return found == choices_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> ChoiceFile::find_again(const std::string& problem) {
  if (!path_.empty()) read();
  return find(problem);
}

ChoiceFile::Lock::Lock(const ChoiceFile& file) {
  if (file.path_.empty()) return;
  std::error_code error;
  fs::create_directories(file.path_.parent_path(), error);
  descriptor_ = ::open((file.path_.string() + ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  while (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

ChoiceFile::Lock::~Lock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void ChoiceFile::add(const std::string& problem, const std::string& choice) {
  choices_[problem] = choice;
  if (path_.empty()) return;
  read();
  write();
}

// A line is a problem, a bar and the choice; other lines are ignored.
void ChoiceFile::read() {
  std::ifstream in(path_);
  std::string line;
  if (!std::getline(in, line) || line != header_) return;
  while (std::getline(in, line)) {
    const size_t bar = line.find('|');
    if (bar != std::string::npos) choices_.emplace(line.substr(0, bar), line.substr(bar + 1));
  }
}

void ChoiceFile::write() const {
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  // Written beside and renamed: readers see the old file or the new one, never a part.
  const fs::path fresh = path_.string() + fmt::format(".{}.new", getpid());
  {
    std::ofstream out(fresh);
    out << header_ << '\n';
    for (const auto& [problem, choice] : choices_) out << problem << '|' << choice << '\n';
    if (!out.flush()) {
      out.close();
      fs::remove(fresh, error);
      return;
    }
  }
  fs::rename(fresh, path_, error);
}

}  // namespace binade::backend::cuda
