#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/command.h"
#include "support/paths.h"

namespace binade::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A copy of the launcher in a folder with a space in its name, with stand-ins for the programs it
// calls. Each stand-in writes its name and arguments to a log.
class Launcher : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "binade launcher XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
    fs::create_directories(home_ / "bin");
    fs::create_directories(home_ / "project/cmake");
    const fs::path source = test::source_dir();
    fs::copy(source / "binade", home_ / "project/binade");
    for (const char* file : {"packages.sh", "debian-packages.txt"}) {
      fs::copy(source / "cmake" / file, home_ / "project/cmake" / file);
    }
    for (const char* folder : {"ops", "nn"}) {
      fs::create_directories(home_ / "project/tests" / folder);
      std::ofstream(home_ / "project/tests" / folder / "norm_test.cpp");
    }
    // The usual tools and nothing else on the path.
    for (const char* tool : {"bash", "cat", "chmod", "dirname", "env", "flock", "grep", "mkdir",
                             "mktemp", "nproc", "readlink", "rm", "tee", "touch"}) {
      const Outcome found = run_shell(std::string("command -v ") + tool);
      fs::create_symlink(found.out.substr(0, found.out.find('\n')), home_ / "bin" / tool);
    }
    stub("dpkg-query", "echo installed");
    stub("apt-get", "");
    stub("id", "echo 0");
    stub("cmake", "touch \"build/$2/build.ninja\"");
    stub("ninja",
         "echo '[1/1] Linking'; echo '#!/bin/bash' >\"$2/binade\"; chmod +x \"$2/binade\"");
    stub("ctest", "");
  }

  void TearDown() override { fs::remove_all(home_); }

  void stub(const std::string& name, const std::string& body) {
    const fs::path file = home_ / "bin" / name;
    std::ofstream(file) << "#!/bin/bash\necho \"" << name << " $*\" >>" << quoted(log().string())
                        << "\n"
                        << body << "\n";
    fs::permissions(file, fs::perms::owner_all);
  }

  Outcome launch(const std::string& arguments, const std::string& folder = "/") {
    return run_shell("cd " + quoted(folder) +
                     " && env -i PATH=" + quoted((home_ / "bin").string()) + " HOME=/ " +
                     quoted((home_ / "project/binade").string()) + " " + arguments);
  }

  // The line in which a stand-in was called, "" if it was not.
  std::string call_of(const std::string& name) {
    std::ifstream lines(log());
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(name + " ")) return line;
    }
    return "";
  }

  fs::path log() const { return home_ / "calls.log"; }
  fs::path build() const { return home_ / "project/build/release"; }

  fs::path home_;
};

TEST_F(Launcher, BuildsAndRunsFromAnyFolder) {
  stub("ninja",
       "echo '[1/1] Linking'\n"
       "printf '#!/bin/bash\\nprintf \"%%s|\" \"$@\"; pwd; exit 7' >\"$2/binade\"; chmod +x "
       "\"$2/binade\"");
  const Outcome outcome = launch("train 'a b' \"c'd\"", "/usr");
  EXPECT_EQ(outcome.status, 7) << outcome.err;
  EXPECT_EQ(outcome.out, "train|a b|c'd|/usr\n");
  EXPECT_EQ(outcome.err, "binade: building (the first time takes some minutes)\n");
  EXPECT_EQ(call_of("cmake"), "cmake --preset release");
  EXPECT_THAT(call_of("ninja"), HasSubstr("binade_cli"));
  EXPECT_THAT(call_of("apt-get"), IsEmpty());
}

TEST_F(Launcher, ConfiguresOnceAndSaysNothingWhenNothingIsToDo) {
  launch("version");
  fs::remove(log());
  stub("ninja", "echo '[0/2] Re-checking globbed directories...'; echo 'ninja: no work to do.'");
  const Outcome outcome = launch("version");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(call_of("cmake"), IsEmpty());
  EXPECT_THAT(call_of("dpkg-query"), IsEmpty());
}

TEST_F(Launcher, InstallsWhatIsMissing) {
  stub("dpkg-query", "[[ ${*: -1} == cmake || ${*: -1} == g++ ]] || echo installed");
  const Outcome outcome = launch("version");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("binade: installing g++ cmake\n"));
  std::ifstream calls(log());
  const std::string text{std::istreambuf_iterator<char>(calls), {}};
  EXPECT_THAT(text,
              AllOf(HasSubstr("apt-get update\n"), HasSubstr("no-install-recommends g++ cmake\n")));
}

TEST_F(Launcher, SaysWhatToInstallWhereItCannot) {
  stub("dpkg-query", "[[ ${*: -1} == libhwy-dev ]] || echo installed");
  stub("id", "echo 1000");
  const Outcome outcome = launch("version");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("not root"), HasSubstr("\n  libhwy-dev\n")));
  EXPECT_THAT(call_of("apt-get"), IsEmpty());
}

TEST_F(Launcher, AsksSudoWhereNotRoot) {
  stub("dpkg-query", "[[ ${*: -1} == libhwy-dev ]] || echo installed");
  stub("id", "echo 1000");
  stub("sudo", "exit 1");
  const Outcome refused = launch("version");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("\n  libhwy-dev\n"));
  EXPECT_EQ(call_of("sudo"), "sudo apt-get update");
  stub("sudo", "exec \"$@\"");
  EXPECT_EQ(launch("version").status, 0);
}

TEST_F(Launcher, ListsEverythingWhereThereIsNoDebian) {
  fs::remove(home_ / "bin/dpkg-query");
  fs::remove(home_ / "bin/cmake");
  const Outcome outcome = launch("version");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("'cmake'"), HasSubstr("g++"), HasSubstr("libgtest-dev")));
}

TEST_F(Launcher, ShowsTheOutputOfAFailedBuild) {
  stub("ninja", "echo '[1/2] Compiling'; echo 'norm.cpp:7: error: nonsense' >&2; exit 1");
  const Outcome outcome = launch("version");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("norm.cpp:7: error: nonsense"), HasSubstr("the build failed")));

  stub("cmake", "echo 'no compiler'; exit 1");
  fs::remove_all(build());
  const Outcome unconfigured = launch("version");
  EXPECT_EQ(unconfigured.status, 1);
  EXPECT_THAT(unconfigured.err, HasSubstr("no compiler"));
  EXPECT_FALSE(fs::exists(build() / "configured"));
}

TEST_F(Launcher, TestLeavesOutTheLongLabels) {
  EXPECT_EQ(launch("test -R Softmax").status, 0);
  EXPECT_THAT(call_of("ninja"), HasSubstr(" all"));
  EXPECT_THAT(call_of("ctest"),
              AllOf(HasSubstr("-LE ^(slow|net|fuzz|gpu)$"), HasSubstr("-R Softmax")));
}

TEST_F(Launcher, TestAllLeavesOutOnlyWhatCannotRun) {
  EXPECT_EQ(launch("test --all").status, 0);
  EXPECT_THAT(call_of("ctest"), AllOf(HasSubstr("-LE ^(gpu)$"), Not(HasSubstr("--all"))));
  fs::remove(log());
  stub("nvidia-smi", "");
  EXPECT_EQ(launch("test --all").status, 0);
  EXPECT_THAT(call_of("ctest"), Not(HasSubstr("-LE")));
}

TEST_F(Launcher, TestTakesLabelsAskedFor) {
  EXPECT_EQ(launch("test -L slow").status, 0);
  EXPECT_THAT(call_of("ctest"), AllOf(HasSubstr("-L slow"), Not(HasSubstr("-LE"))));
}

TEST_F(Launcher, TestFailsWhenATestFails) {
  stub("ctest", "exit 8");
  EXPECT_EQ(launch("test").status, 8);
}

TEST_F(Launcher, DevBuildsAndTestsOneComponent) {
  EXPECT_EQ(launch("dev ops -R Norm").status, 0);
  EXPECT_EQ(call_of("cmake"), "cmake --preset dev");
  EXPECT_THAT(call_of("ninja"), AllOf(HasSubstr("build/dev"), HasSubstr(" test_ops")));
  EXPECT_THAT(call_of("ctest"),
              AllOf(HasSubstr("build/dev"), HasSubstr("-L ^ops$"),
                    HasSubstr("-LE ^(slow|net|fuzz|gpu)$"), HasSubstr("-R Norm")));
}

TEST_F(Launcher, DevWithoutAComponentBuildsEverything) {
  EXPECT_EQ(launch("dev -R Norm").status, 0);
  EXPECT_THAT(call_of("ninja"), AllOf(HasSubstr("build/dev"), HasSubstr(" all")));
  EXPECT_THAT(call_of("ctest"), AllOf(Not(HasSubstr("-L ")), HasSubstr("-R Norm")));
}

TEST_F(Launcher, DevNamesTheComponentsIfOneIsUnknown) {
  const Outcome outcome = launch("dev attic");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err, "binade: no component 'attic' with tests; there are: nn ops\n");
  EXPECT_THAT(call_of("ninja"), IsEmpty());
}

TEST_F(Launcher, HelpNamesItsOwnCommands) {
  EXPECT_THAT(launch("--help").out, AllOf(HasSubstr("test [--all]"), HasSubstr("dev [COMPONENT]")));
  EXPECT_THAT(launch("dev --help").out, HasSubstr("Usage: ./binade dev"));
  const Outcome help = launch("test --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, HasSubstr("Usage: ./binade test"));
  EXPECT_THAT(call_of("ctest"), IsEmpty());
}

}  // namespace
}  // namespace binade::cli
