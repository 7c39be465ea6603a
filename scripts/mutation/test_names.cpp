// Compiled into every test executable of a build with random faults: says which test is running,
// how long it took and whether it passed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "binade_mutant.h"

namespace {

void begin(const std::string& test) {
  ::setenv("BINADE_MUTANT_TEST", test.c_str(), 1);
  for (auto& place : binade::mutants::reached) place.store(false, std::memory_order_relaxed);
}

class TestNames : public testing::EmptyTestEventListener {
  void OnTestSuiteStart(const testing::TestSuite& suite) override {
    begin(std::string(suite.name()) + ".*");  // what its fixture does for all
  }
  void OnTestStart(const testing::TestInfo& test) override { begin(full_name(test)); }
  void OnTestEnd(const testing::TestInfo& test) override {
    const std::string line = "ended\t" + full_name(test) + "\t" +
                             std::to_string(test.result()->elapsed_time()) + "\t" +
                             (test.result()->Failed() ? "failed" : "passed") + "\n";
    binade::mutants::note(line.data(), static_cast<int>(line.size()));
  }
  static std::string full_name(const testing::TestInfo& test) {
    return std::string(test.test_suite_name()) + "." + test.name();
  }
};

const bool listening = [] {
  if (binade::mutants::active == binade::mutants::recording)
    testing::UnitTest::GetInstance()->listeners().Append(new TestNames);
  return true;
}();

}  // namespace
