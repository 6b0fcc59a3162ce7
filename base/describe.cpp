#include "base/describe.hpp"

#include <array>
#include <csignal>
#include <ctime>
#include <utility>

#include <fmt/format.h>

namespace ddprun {
namespace {

/// glibc has such a table since 2.32 only (sigabbrev_np).
constexpr auto kSignalNames = std::to_array<std::pair<int, const char*>>(
    {{SIGHUP, "SIGHUP"},       {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"},    {SIGILL, "SIGILL"},
     {SIGTRAP, "SIGTRAP"},     {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},      {SIGFPE, "SIGFPE"},
     {SIGKILL, "SIGKILL"},     {SIGUSR1, "SIGUSR1"}, {SIGSEGV, "SIGSEGV"},    {SIGUSR2, "SIGUSR2"},
     {SIGPIPE, "SIGPIPE"},     {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},    {SIGCHLD, "SIGCHLD"},
     {SIGCONT, "SIGCONT"},     {SIGSTOP, "SIGSTOP"}, {SIGTSTP, "SIGTSTP"},    {SIGTTIN, "SIGTTIN"},
     {SIGTTOU, "SIGTTOU"},     {SIGURG, "SIGURG"},   {SIGXCPU, "SIGXCPU"},    {SIGXFSZ, "SIGXFSZ"},
     {SIGVTALRM, "SIGVTALRM"}, {SIGPROF, "SIGPROF"}, {SIGWINCH, "SIGWINCH"},  {SIGPOLL, "SIGPOLL"},
     {SIGPWR, "SIGPWR"},       {SIGSYS, "SIGSYS"},   {SIGSTKFLT, "SIGSTKFLT"}});

}  // namespace

std::string signal_name(int signal) {
  for (const auto& [number, name] : kSignalNames)
    if (number == signal) return name;
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) {
    return signal == SIGRTMIN ? "SIGRTMIN" : fmt::format("SIGRTMIN+{}", signal - SIGRTMIN);
  }
  return fmt::format("signal {}", signal);
}

std::string describe(const ExitStatus& exit) {
  if (!exit.by_signal) return fmt::format("exited with code {}", exit.value);
  return fmt::format("killed by {} (signal {}{})", signal_name(exit.value), exit.value,
                     exit.core_dumped ? ", core dumped" : "");
}

std::string describe(std::chrono::nanoseconds duration) {
  using namespace std::chrono;
  const auto ms = duration_cast<milliseconds>(duration).count();
  if (ms < 1000) return fmt::format("{} ms", ms);
  if (ms < 60'000) return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000.0);
  const auto s = ms / 1000;
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s / 60 % 60);
}

std::string describe(std::chrono::system_clock::time_point time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  const std::time_t seconds = std::chrono::system_clock::to_time_t(whole);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", text,
                     std::chrono::floor<std::chrono::milliseconds>(time - whole).count());
}

std::string describe_bytes(std::uint64_t bytes) {
  constexpr std::uint64_t kKiB = 1024;
  constexpr std::uint64_t kMiB = 1024 * kKiB;
  constexpr std::uint64_t kGiB = 1024 * kMiB;
  if (bytes < kMiB) return fmt::format("{} KiB", bytes / kKiB);
  if (bytes < kGiB) return fmt::format("{} MiB", bytes / kMiB);
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(kGiB));
}

}  // namespace ddprun
