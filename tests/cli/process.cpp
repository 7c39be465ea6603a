#include "cli/process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace binade::cli {

Process::Process(const std::vector<std::string>& arguments, const std::filesystem::path& output)
    : pid_(::fork()) {
  if (pid_ != 0) return;
  std::vector<char*> words;
  for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  ::dup2(file, 1);
  ::dup2(file, 2);
  ::execv(words[0], words.data());
  ::_exit(127);
}

Process::~Process() {
  if (running()) kill();
}

bool Process::running() {
  if (status_ < 0 && ::waitpid(pid_, &raw_, WNOHANG) == pid_) finish();
  return status_ < 0;
}

int Process::wait() {
  if (status_ < 0 && ::waitpid(pid_, &raw_, 0) == pid_) finish();
  return status_;
}

void Process::send(int signal) const { ::kill(pid_, signal); }

void Process::stop() {
  send(SIGSTOP);
  if (::waitpid(pid_, &raw_, WUNTRACED) == pid_ && !WIFSTOPPED(raw_)) finish();
}

void Process::kill() {
  if (!running()) return;
  send(SIGKILL);
  wait();
}

bool Process::was_killed() const { return status_ == 128 + SIGKILL; }

void Process::finish() { status_ = WIFEXITED(raw_) ? WEXITSTATUS(raw_) : 128 + WTERMSIG(raw_); }

}  // namespace binade::cli
