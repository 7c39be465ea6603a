#include "binade/version.h"

#include <gtest/gtest.h>

#include <string>

namespace binade {
namespace {

TEST(Version, TextAndNumbersAgree) {
  const std::string numbers = std::to_string(BINADE_VERSION_MAJOR) + "." +
                              std::to_string(BINADE_VERSION_MINOR) + "." +
                              std::to_string(BINADE_VERSION_PATCH);
  EXPECT_EQ(BINADE_VERSION, numbers);
}

TEST(Version, TheLibrarySaysTheVersionItWasBuiltFrom) { EXPECT_STREQ(version(), BINADE_VERSION); }

}  // namespace
}  // namespace binade
