#include "binade/train/hash/reproduction.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "binade/base/error.h"
#include "binade/io/checksum.h"
#include "binade/io/file.h"

namespace binade::train {
namespace {

constexpr int64_t max_manifest_bytes = int64_t{64} << 20;
constexpr int64_t max_step = int64_t{1} << 60;
constexpr const char* reader_name = "reproduce";

void check_links(const std::vector<Link>& links, const std::string& file) {
  std::string before;
  int64_t step = -1;
  for (const Link& link : links) {
    if (link.step <= step || next_link(before, link.step, link.state).digest != link.digest)
      fail(reader_name, {.argument = file,
                         .expected = "a chain of hashes in which each covers the one before",
                         .found = fmt::format("one that breaks at step {}", link.step)});
    before = link.digest;
    step = link.step;
  }
}

}  // namespace

std::string describe_tokenizer(std::string_view tokenizer) {
  if (tokenizer.empty()) return {};
  return fmt::format("{} bytes, XXH3 {:016x}", tokenizer.size(),
                     XXH3_64bits(tokenizer.data(), tokenizer.size()));
}

std::string to_json(const Reproduction& manifest) {
  json::Writer out(2);
  out.begin_object().key("format").value("binade-reproduction").key("version").value(1);
  out.key("binade").value(manifest.origin.version).key("data").value(manifest.origin.data);
  out.key("tokenizer").value(manifest.tokenizer);
  out.key("arithmetic").value(manifest.origin.arithmetic).key("base").value(manifest.origin.base);
  out.key("steps").value(manifest.steps).key("config").value(manifest.config);
  out.key("links").begin_array();
  for (const Link& link : manifest.links) {
    out.begin_object().key("step").value(link.step);
    write_link(out.key("hash"), link);
    out.end_object();
  }
  return io::with_checksum(out.end_array().end_object().text()) + "\n";
}

Reproduction read_reproduction(const io::Path& file) {
  const std::string text = io::read_text(file, reader_name, max_manifest_bytes);
  const json::Document document = json::parse(text, {reader_name, file.string()});
  io::check_checksum(text, file.string(), reader_name);
  const json::Value& root = document.root();
  if (root.at("format").string() != "binade-reproduction")
    root.at("format").refuse("\"binade-reproduction\"", root.at("format").describe());
  io::check_version(root.at("version"), text, file.string(), reader_name);
  Reproduction manifest{.config = root.at("config").string(),
                        .origin = {.run = {},
                                   .data = root.at("data").string(),
                                   .arithmetic = root.at("arithmetic").string(),
                                   .version = root.at("binade").string(),
                                   .base = root.at("base").string()},
                        .tokenizer = root.at("tokenizer").string(),
                        .steps = root.at("steps").integer(0, max_step),
                        .links = {}};
  for (const json::Value& one : root.at("links").array())
    manifest.links.push_back(parse_link(one.at("hash"), one.at("step").integer(0, max_step)));
  check_links(manifest.links, file.string());
  return manifest;
}

}  // namespace binade::train
