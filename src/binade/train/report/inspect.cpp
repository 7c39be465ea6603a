#include "binade/train/report/inspect.h"

#include <algorithm>
#include <cstring>

#include "binade/base/error.h"
#include "binade/data/token_file.h"
#include "binade/io/gguf/file.h"
#include "binade/io/manifest.h"
#include "binade/io/model_folder.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* inspect_op = "inspect";
constexpr int64_t any_id = int64_t{1} << 40;  // a vocabulary larger than any id

void add_file(const fs::path& path, const std::string& only, Inspection& result) {
  const io::SafetensorsFile file(path);
  for (const io::TensorEntry& entry : file.entries()) {
    if (entry.name.find(only) == std::string::npos) continue;
    result.tensors.push_back(
        {path.filename().string(), entry, io::statistics_of(entry.format, file.bytes(entry))});
  }
  result.bytes += static_cast<int64_t>(fs::file_size(path));
}

void add_gguf(const fs::path& path, const std::string& only, Inspection& result) {
  const io::gguf::File file(path);
  for (const io::gguf::Key& key : file.keys()) result.keys.push_back({key.name(), key.describe()});
  for (const io::gguf::TensorInfo& tensor : file.tensors()) {
    if (tensor.name.find(only) == std::string::npos) continue;
    InspectedTensor found{.file = path.filename().string(),
                          .entry = {.name = tensor.name,
                                    .format = std::string(tensor.type->name),
                                    .dtype = tensor.type->dtype,
                                    .shape = tensor.shape,
                                    .offset = tensor.offset,
                                    .bytes = tensor.bytes},
                          .numbers = {}};
    if (tensor.type->dtype || tensor.type->blocks() != nullptr) {
      const Tensor values = file.load(tensor);
      found.numbers = io::statistics_of(
          io::safetensors_format(values.dtype()),
          {static_cast<const std::byte*>(values.raw_data()), static_cast<size_t>(values.bytes())});
    }
    result.tensors.push_back(std::move(found));
  }
  result.bytes = static_cast<int64_t>(fs::file_size(path));
}

void add_folder(const fs::path& folder, const std::string& only, Inspection& result) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".safetensors") files.push_back(at->path());
  }
  if (error || files.empty()) {
    fail(inspect_op, {.argument = folder.string(),
                      .expected = "a folder with safetensors files",
                      .found = error ? error.message() : "none in it"});
  }
  result.kind = "a model's folder";
  if (fs::exists(folder / "manifest.json")) {
    io::verify_files(folder, inspect_op);
    result.kind = "a checkpoint that matches its manifest";
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) add_file(file, only, result);
}

// By the extension, or by a header's length and first byte, which neither texts nor token files
// have.
bool is_safetensors(const fs::path& path) {
  if (path.extension() == ".safetensors") return true;
  const io::MappedFile file(path, inspect_op);
  uint64_t length = 0;
  if (file.bytes().size() < sizeof length + 1) return false;
  std::memcpy(&length, file.bytes().data(), sizeof length);
  return length < file.bytes().size() && file.bytes()[sizeof length] == std::byte{'{'};
}

void add_tokens(const fs::path& path, Inspection& result) {
  const data::Tokens tokens = data::read_token_file(path, any_id);
  result.tokens = data::statistics_of(tokens);
  result.bytes = static_cast<int64_t>(fs::file_size(path));
  const bool has_header = result.bytes != 2 * tokens.size();
  result.kind = has_header ? "an llm.c token file, " : "a token file without a header, ";
  result.kind += result.bytes >= 4 * tokens.size() ? "32 bits per id" : "16 bits per id";
}

}  // namespace

Inspection inspect(const fs::path& path, const std::string& only) {
  Inspection result{.path = path.string()};
  std::error_code error;
  if (fs::is_directory(path, error)) {
    fs::path folder = path;
    if (io::Path(path / "checkpoints").is_taken()) {
      io::ModelChoice choice = io::choose_model(path, inspect_op);
      folder = choice.folder;
      result.notes = std::move(choice.notes);
    }
    result.path = folder.string();
    add_folder(folder, only, result);
  } else if (io::gguf::is_gguf(path)) {
    result.kind = "GGUF";
    add_gguf(path, only, result);
  } else if (data::is_token_file(path) && !is_safetensors(path)) {
    add_tokens(path, result);
  } else if (is_safetensors(path)) {
    result.kind = "safetensors";
    add_file(path, only, result);
  } else {
    fail(inspect_op,
         {.argument = path.string(),
          .expected = "a safetensors file, a GGUF file, a token file (.bin) or a folder "
                      "of a model",
          .found = "something else"});
  }
  if (!only.empty() && result.tensors.empty()) {
    fail(inspect_op, {.argument = result.path,
                      .expected = "a tensor whose name contains \"" + only + "\"",
                      .found = "none"});
  }
  return result;
}

}  // namespace binade::train
