#include "binade/io/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/io/checksum.h"
#include "binade/io/file.h"
#include "binade/io/weight_shards.h"

namespace binade::io {
namespace {

namespace fs = std::filesystem;

constexpr int64_t max_manifest = 1 << 20;
constexpr const char* manifest_name = "manifest.json";
constexpr const char* state_name = "trainer.safetensors";
constexpr std::array fact_names = {"run", "data", "arithmetic", "binade", "base", "hash", "link"};
constexpr std::array other_names = {"format", "version", "step", "files", "checksum"};

// A name from a file must not lead out of the folder, nor send control codes to a terminal.
bool is_plain_name(const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name[0] != '.' && std::all_of(name.begin(), name.end(), plain);
}

Manifest parse_manifest(const json::Value& root) {
  Manifest manifest;
  for (const auto& [name, value] : root.object()) {
    if (std::ranges::find(fact_names, name) != fact_names.end()) {
      manifest.facts[name] = value.string();
    } else if (std::ranges::find(other_names, name) == other_names.end()) {
      value.refuse("a member that checkpoints have", json::in_quotes(name));
    }
  }
  if (const json::Value* step = root.find("step"))
    manifest.step = step->integer(0, int64_t{1} << 60);
  for (const auto& [name, entry] : root.at("files").object()) {
    if (!is_plain_name(name)) entry.refuse("a plain file name", json::in_quotes(name));
    manifest.files[name] = {entry.at("bytes").integer(0, int64_t{1} << 60),
                            entry.at("xxh3_128").string()};
  }
  return manifest;
}

// Fails if the manifest lists no model.
void require_model(const Path& checkpoint, const Manifest& manifest, std::string_view caller) {
  const char* weights = manifest.files.contains("adapter_config.json") ? "adapter_model.safetensors"
                        : manifest.files.contains(weight_index_file)   ? weight_index_file
                                                                       : "model.safetensors";
  for (const char* name : {"config.json", weights}) {
    if (!manifest.files.contains(name))
      fail(caller, {.argument = (checkpoint / manifest_name).string() + " (files)",
                    .expected = fmt::format("a member \"{}\"", name),
                    .found = "none"});
  }
}

}  // namespace

Manifest read_manifest(const Path& checkpoint, std::string_view caller) {
  const Path path = checkpoint / manifest_name;
  const std::string text = read_text(path, caller, max_manifest);
  const json::Document document = json::parse(text, {std::string(caller), path.string()});
  check_checksum(text, path.string(), caller);
  const json::Value& root = document.root();
  if (root.at("format").string() != "binade-checkpoint")
    root.at("format").refuse("\"binade-checkpoint\"", root.at("format").describe());
  check_version(root.at("version"), text, path.string(), caller);
  return parse_manifest(root);
}

Manifest::File describe_file(const Path& file, std::string_view caller) {
  return {static_cast<int64_t>(MappedFile(file, caller).bytes().size()),
          hash_of_file(file, caller)};
}

std::string manifest_text(const Path& folder, const Manifest& about, std::string_view caller) {
  std::vector<std::string> files = folder.names();
  std::sort(files.begin(), files.end());
  json::Writer out(2);
  out.begin_object().key("format").value("binade-checkpoint").key("version").value(1);
  out.key("step").value(about.step);
  for (const char* name : fact_names) {
    const auto found = about.facts.find(name);
    if (found != about.facts.end() && !found->second.empty()) out.key(name).value(found->second);
  }
  out.key("files").begin_object();
  for (const std::string& name : files) {
    const auto known = about.files.find(name);
    const Manifest::File file =
        known == about.files.end() ? describe_file(folder / name, caller) : known->second;
    out.key(name).begin_object();
    out.key("bytes").value(file.bytes).key("xxh3_128").value(file.hash).end_object();
  }
  return with_checksum(out.end_object().end_object().text()) + "\n";
}

void verify_file(const Path& checkpoint, const Manifest& manifest, const std::string& name,
                 std::string_view caller) {
  const Path file = checkpoint / name;
  const auto entry = manifest.files.find(name);
  if (entry == manifest.files.end())
    fail(caller, {.argument = file.string(),
                  .expected = "a file that the manifest lists",
                  .found = "one that it does not"});
  const std::string hint =
      "the checkpoint is damaged: put the file back from a copy, or use another checkpoint";
  file.require(EntryKind::file, caller);
  std::error_code error;
  const auto size = static_cast<int64_t>(fs::file_size(file.plain(), error));
  if (error || size != entry->second.bytes)
    fail(caller, {.argument = file.string(),
                  .expected = fmt::format("{} bytes", entry->second.bytes),
                  .found = error ? error.message() : fmt::format("{}", size),
                  .hint = hint});
  if (const std::string hash = hash_of_file(file, caller); hash != entry->second.hash)
    fail(caller, {.argument = file.string(),
                  .expected = "XXH3 " + json::in_quotes(entry->second.hash),
                  .found = hash,
                  .hint = hint});
}

Manifest verify_files(const Path& checkpoint, std::string_view caller) {
  Manifest manifest = read_manifest(checkpoint, caller);
  for (const auto& [name, file] : manifest.files) verify_file(checkpoint, manifest, name, caller);
  require_model(checkpoint, manifest, caller);
  return manifest;
}

void verify_model(const Path& checkpoint, std::string_view caller) {
  const Manifest manifest = read_manifest(checkpoint, caller);
  for (const auto& [name, file] : manifest.files) {
    if (name != state_name) verify_file(checkpoint, manifest, name, caller);
  }
  require_model(checkpoint, manifest, caller);
}

Path set_aside(const Path& path, std::string_view caller) {
  Path aside = path.beside(path.filename() + ".damaged");
  for (int i = 2; aside.is_taken(); ++i)
    aside = path.beside(fmt::format("{}.damaged-{}", path.filename(), i));
  if (!path.rename_to(aside))
    fail(caller, {.argument = path.string(),
                  .expected = "a damaged file that can be renamed to " + aside.filename(),
                  .found = std::generic_category().message(errno)});
  return aside;
}

}  // namespace binade::io
