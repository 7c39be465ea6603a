#include "binade/backend/cuda/matmul/tuning_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace binade::backend::cuda {
namespace {

namespace fs = std::filesystem;

constexpr size_t algorithm_words = std::size(cublasLtMatmulAlgo_t{}.data);

fs::path cache_folder() {
  const char* base = std::getenv("XDG_CACHE_HOME");
  if (base != nullptr && fs::path(base).is_absolute()) return fs::path(base) / "binade";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? fs::path(home) / ".cache" / "binade" : fs::path();
}

std::string file_name(std::string text) {
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '-';
  }
  return text;
}

// A line is the key's numbers, a bar and the algorithm's words in hexadecimal; other lines are
// ignored.
bool parse(const std::string& line, GemmKey& key, cublasLtMatmulAlgo_t& algorithm) {
  std::istringstream in(line);
  for (int64_t& number : key) in >> number;
  std::string bar;
  in >> bar >> std::hex;
  for (uint64_t& word : algorithm.data) in >> word;
  std::string rest;
  return in && bar == "|" && !(in >> rest);
}

}  // namespace

AlgorithmFile::AlgorithmFile(const Gpu& gpu)
    : header_(fmt::format("binade cublaslt {} {} {}", gpu.name, cublasLtGetVersion(),
                          gpu.multiprocessors)) {
  const fs::path folder = cache_folder();
  if (folder.empty()) return;
  path_ = folder / fmt::format("cublaslt-{}-{}.txt", file_name(gpu.name), cublasLtGetVersion());
  read();
}

std::optional<cublasLtMatmulAlgo_t> AlgorithmFile::find(const GemmKey& key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<cublasLtMatmulAlgo_t> AlgorithmFile::find_again(const GemmKey& key) {
  if (!path_.empty()) read();
  return find(key);
}

AlgorithmFile::Lock::Lock(const AlgorithmFile& file) {
  if (file.path_.empty()) return;
  std::error_code error;
  fs::create_directories(file.path_.parent_path(), error);
  descriptor_ = ::open((file.path_.string() + ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  while (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

AlgorithmFile::Lock::~Lock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AlgorithmFile::add(const GemmKey& key, const cublasLtMatmulAlgo_t& algorithm) {
  choices_[key] = algorithm;
  if (path_.empty()) return;
  read();
  write();
}

void AlgorithmFile::read() {
  std::ifstream in(path_);
  std::string line;
  if (!std::getline(in, line) || line != header_) return;
  while (std::getline(in, line)) {
    GemmKey key;
    cublasLtMatmulAlgo_t algorithm;
    if (parse(line, key, algorithm)) choices_.emplace(key, algorithm);
  }
}

void AlgorithmFile::write() const {
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  // Written beside and renamed: readers see the old file or the new one, never a part.
  const fs::path fresh = path_.string() + fmt::format(".{}.new", getpid());
  {
    std::ofstream out(fresh);
    out << header_ << '\n';
    for (const auto& [key, algorithm] : choices_) {
      for (const int64_t number : key) out << number << ' ';
      out << '|';
      for (const uint64_t word : algorithm.data) out << fmt::format(" {:x}", word);
      out << '\n';
    }
    if (!out.flush()) {
      out.close();
      fs::remove(fresh, error);
      return;
    }
  }
  fs::rename(fresh, path_, error);
}

}  // namespace binade::backend::cuda
