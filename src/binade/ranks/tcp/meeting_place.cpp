#include "binade/ranks/tcp/meeting_place.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "binade/base/error.h"

namespace binade::ranks::tcp {
namespace {

std::optional<std::string> text_of(Variables variables, const char* name) {
  const char* const text = variables(name);
  if (text == nullptr || *text == '\0') return {};
  return text;
}

std::string host(Variables variables, const Environment& here) {
  if (const auto given = text_of(variables, "MASTER_ADDR")) return *given;
  if (here.launcher == "srun") {
    for (const char* list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
      if (const auto nodes = text_of(variables, list)) return first_host(*nodes);
    }
  }
  fail("ranks", {.argument = "MASTER_ADDR",
                 .expected = "the name or address of rank 0's machine",
                 .found = "none",
                 .hint = "torchrun, or 'MASTER_ADDR=HOST MASTER_PORT=29500' for every rank, or "
                         "binade launch -n N on one machine"});
}

// Jobs that share a machine get different ports.
int port_of_step(Variables variables) {
  uint64_t number = 0;
  for (const char* name : {"SLURM_JOB_ID", "SLURM_STEP_ID"}) {
    const std::string text = text_of(variables, name).value_or("0");
    uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    number = number * 101 + value;
  }
  return static_cast<int>(20000 + number % 10000);
}

int port(Variables variables, const Environment& here) {
  const auto given = text_of(variables, "MASTER_PORT");
  if (!given && here.launcher == "srun") return port_of_step(variables);
  const bool has_store = text_of(variables, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  const int last = has_store ? 65534 : 65535;
  int value = 0;
  const std::string text = given.value_or("");
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > last) {
    fail("ranks", {.argument = "MASTER_PORT",
                   .expected = "a port of 1 to " + std::to_string(last) + ", the same on all ranks",
                   .found = given ? "'" + text + "'" : "none"});
  }
  return has_store ? value + 1 : value;
}

}  // namespace

std::string first_host(const std::string& list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const size_t number_end = list.find_first_of("-,]", bracket);
  const size_t closing = list.find(']', bracket);
  if (closing == std::string::npos) return list.substr(0, bracket);
  const std::string rest = list.substr(closing + 1, list.find(',', closing) - closing - 1);
  return list.substr(0, bracket) + list.substr(bracket + 1, number_end - bracket - 1) + rest;
}

Address meeting_place(Variables variables, const Environment& here) {
  const std::string where = host(variables, here);
  return {where, port(variables, here)};
}

}  // namespace binade::ranks::tcp
