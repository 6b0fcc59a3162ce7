#include "bench/train_step/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace ddprun::bench {
namespace {

/// This process's environment with others of these names.
std::vector<std::string> merged(const Process::Environment& environment) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (std::none_of(environment.begin(), environment.end(),
                     [&](const auto& one) { return one.first == name; }))
      all.push_back(text);
  }
  for (const auto& [name, value] : environment) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

std::string last_lines(const std::string& text) {
  constexpr std::size_t kShown = 1500;
  return text.size() <= kShown ? text : text.substr(text.size() - kShown);
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const Environment& environment,
                 std::string output)
    : name_(command.front()), output_(std::move(output)) {
  std::vector<std::string> words = command;
  std::vector<std::string> variables = merged(environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  const int failed = posix_spawnp(&pid_, words.front().c_str(), &actions, nullptr,
                                  pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    pid_ = -1;
    throw std::runtime_error(fmt::format("{} could not be started", name_));
  }
}

Process::~Process() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool Process::runs() {
  if (pid_ >= 0 && waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = -1;
  return pid_ >= 0;
}

void Process::finish() {
  if (pid_ >= 0) waitpid(pid_, &status_, 0);
  pid_ = -1;
  if (status_ != 0) fail();
}

void Process::fail() const {
  throw std::runtime_error(
      fmt::format("{} ended too early; its last lines:\n{}", name_, last_lines(text_of(output_))));
}

double Process::cpu_seconds() const {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0)
    throw std::runtime_error(fmt::format("no CPU time of {}", name_));
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::uint64_t Process::peak_bytes() const {
  const std::string status = text_of(fmt::format("/proc/{}/status", pid_));
  const std::string name = "VmHWM:";
  const std::size_t at = status.find(name);
  return at == std::string::npos
             ? 0
             : std::strtoull(status.c_str() + at + name.size(), nullptr, 10) * 1024;
}

Process::Environment rank_environment(int rank, int ranks, std::uint16_t port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(ranks)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)},
          {"OMP_NUM_THREADS", "1"}};
}

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace ddprun::bench
