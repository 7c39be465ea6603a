#include "binade/train/hash/chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "binade/base/error.h"
#include "binade/train/hash/reproduction.h"
#include "binade/train/run/metrics.h"

namespace binade::train {
namespace {

constexpr size_t digest_digits = 32, hash_digits = 16;

bool is_hexadecimal(std::string_view text, size_t digits) {
  return text.size() == digits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<uint64_t> parse_hash(std::string_view text) {
  uint64_t value = 0;
  if (!is_hexadecimal(text, hash_digits)) return {};
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

}  // namespace

std::string to_text(const StateHash& state) {
  std::string text;
  for (const auto& [name, hash] : state_parts)
    text += fmt::format("{}{} {:016x}", text.empty() ? "" : ", ", name, state.*hash);
  return text;
}

std::optional<StateHash> parse_state_hash(const std::string& text) {
  StateHash state;
  std::string_view rest = text;
  for (const auto& [name, hash] : state_parts) {
    if (rest.starts_with(", ")) rest.remove_prefix(2);
    if (!rest.starts_with(name)) return {};
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    const auto value = parse_hash(rest.substr(0, hash_digits));
    if (!value) return {};
    state.*hash = *value;
    rest.remove_prefix(hash_digits);
  }
  return rest.empty() ? std::optional(state) : std::nullopt;
}

std::string to_text(const LinkName& link) {
  return fmt::format("step {}, digest {}", link.step, link.digest);
}

std::optional<LinkName> parse_link_name(const std::string& text) {
  constexpr std::string_view before = "step ", between = ", digest ";
  LinkName link;
  if (!text.starts_with(before)) return {};
  const char *const begin = text.data() + before.size(), *const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(begin, end, link.step);
  const std::string_view tail(rest, static_cast<size_t>(end - rest));
  if (error != std::errc() || link.step < 0 || !tail.starts_with(between)) return {};
  link.digest = tail.substr(between.size());
  return is_hexadecimal(link.digest, digest_digits) ? std::optional(link) : std::nullopt;
}

Link next_link(const std::string& before, int64_t step, const StateHash& state) {
  const std::string text = fmt::format("{}; step {}: {}", before, step, to_text(state));
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {step, state, fmt::format("{:016x}{:016x}", hash.high64, hash.low64)};
}

void write_link(json::Writer& out, const Link& link) {
  out.begin_object();
  for (const auto& [name, hash] : state_parts)
    out.key(name).value(fmt::format("{:016x}", link.state.*hash));
  out.key("link").value(link.digest).end_object();
}

Link parse_link(const json::Value& object, int64_t step) {
  Link link{.step = step, .state = {}, .digest = object.at("link").string()};
  for (const auto& [name, hash] : state_parts) {
    const json::Value& value = object.at(name);
    const auto parsed = parse_hash(value.string());
    if (!parsed) value.refuse("16 hexadecimal digits", value.describe());
    link.state.*hash = *parsed;
  }
  if (!is_hexadecimal(link.digest, digest_digits))
    object.at("link").refuse("32 hexadecimal digits", object.at("link").describe());
  return link;
}

const Link* Chain::at(int64_t step) const {
  const auto found = std::ranges::lower_bound(links, step, {}, &Link::step);
  return found != links.end() && found->step == step ? &*found : nullptr;
}

Chain read_chain(const io::Path& run) {
  if (run.kind() == io::EntryKind::file) return {read_reproduction(run).links, {}};
  const io::Path log = run / "metrics.jsonl";
  if (!log.exists())
    fail("hash", {.argument = run.string(),
                  .expected = "the folder of a run, with its metrics.jsonl",
                  .found = "none"});
  Chain chain;
  std::optional<Link> before;
  visit_metrics(
      log,
      [&](const Record& record, std::string_view) {
        if (!record.link || (before && record.step <= before->step)) return;
        const Link expected =
            next_link(before ? before->digest : "", record.step, record.link->state);
        if (expected.digest != record.link->digest) chain.broken.push_back(record.step);
        chain.links.push_back(*record.link);
        before = record.link;
      },
      [](const std::string&, std::string_view) {});
  return chain;
}

}  // namespace binade::train
