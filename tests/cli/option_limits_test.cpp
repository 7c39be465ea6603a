#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "cli/command.h"

// The numbers that commands take besides those of a configuration: limits and defaults as --help
// states them, and a refusal that names them.
namespace binade::cli {
namespace {

using ::testing::HasSubstr;

struct Limits {
  const char *command, *option, *low, *high, *usual;
};

constexpr Limits limits[] = {
    {"bench step", "--steps", "1", "1000000", "20"},
    {"bench step", "--warmup", "1", "1000000", "5"},
    {"bench resnet", "--steps", "1", "1000000", "10"},
    {"bench resnet", "--warmup", "1", "1000000", "2"},
    {"bench resnet", "--batch", "2", "1048576", "32"},
    {"bench resnet", "--image", "32", "4096", "224"},
    {"bench resnet", "--threads", "0", "1024", "0"},
    {"bench gemm", "--threads", "0", "1024", "0"},
    {"bench gemm", "--seconds", "0", "3600", "1"},
    {"bench ops", "--seconds", "0", "3600", "1"},
    {"generate runs/1", "--count", "1", "1000000", "1"},
    {"generate runs/1", "--logprobs", "0", "100", ""},
    {"serve runs/1", "--port", "0", "65535", "8000"},
    {"serve runs/1", "--streams", "1", "256", ""},
    {"serve runs/1", "--queue", "1", "512", "256"},
    {"serve runs/1", "--max-texts", "1", "512", "64"},
    {"serve runs/1", "--time", "1", "86400", "600"},
    {"serve runs/1", "--max-body", "1", "64", "4"},
    {"eval runs/1", "--stride", "1", "1048576", ""},
    {"launch", "--ranks", "1", "4096", ""},
    {"launch -n 2", "--restarts", "0", "1000000", ""},
    {"plan", "--ranks", "1", "4096", ""},
    {"plan --ranks 2", "--per-node", "1", "4096", ""},
    {"plan --ranks 2", "--nvlink", "0.001", "1e+06", ""},
    {"plan --ranks 2", "--nic", "0.001", "1e+06", ""},
    {"tokenize train --data x t", "--vocab", "261", "1048576", "8192"},
    {"compare", "--seeds", "2", "100", "3"},
};

TEST(OptionLimits, AreThoseOfTheHelpAndOfTheRefusal) {
  std::map<std::string, std::string> helps;
  for (const auto& [command, option, low, high, usual] : limits) {
    std::string& help = helps[command];
    if (help.empty()) help = binade(std::string(command) + " --help").out;
    // Where it is described, not where another option names it.
    std::smatch found;
    ASSERT_TRUE(std::regex_search(help, found, std::regex(std::string(option) + " [A-Z]+:[^\n]*")))
        << command << " " << option;
    EXPECT_THAT(found.str(),
                HasSubstr(std::string(":") + low + ".." + high + (*usual != 0 ? "=" : "") + usual))
        << command;
    for (const std::string& number : {std::string("-1"), std::string(high) + "1"}) {
      const Outcome refused = binade(std::string(command) + " " + option + " " + number);
      EXPECT_EQ(refused.status, 2) << command << " " << option;
      EXPECT_THAT(refused.err, HasSubstr(std::string(option) + ": expected a ")) << command;
      EXPECT_THAT(refused.err, HasSubstr(std::string(" number from ") + low + " to " + high +
                                         ", found '" + number + "'"))
          << command;
    }
  }
}

}  // namespace
}  // namespace binade::cli
