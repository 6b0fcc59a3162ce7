// The program `rdzvd`: options, then the daemon, or a question to one that runs.
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "base/exit_codes.hpp"
#include "base/program_main.hpp"
#include "rendezvous/daemon/daemon.hpp"
#include "rendezvous/daemon/observer.hpp"
#include "rendezvous/daemon/options.hpp"

int main(int argc, char** argv) {
  const bool has_stdout = ddprun::ensure_standard_descriptors();
  ddprun::end_on_uncaught_exception("rdzvd", ddprun::kExitInternal);
  const auto parsed =
      ddprun::rdzv::parse_daemon_options(std::vector<std::string>(argv + 1, argv + argc));
  if (const auto* exit = std::get_if<ddprun::rdzv::DaemonExit>(&parsed)) {
    if (exit->code == 0)
      return ddprun::print_text("rdzvd", exit->text, has_stdout) ? 0 : ddprun::kExitOutput;
    std::fputs(exit->text.c_str(), stderr);
    return exit->code;
  }
  if (const auto* observer = std::get_if<ddprun::rdzv::ObserverOptions>(&parsed)) {
    for (const std::string& warning : observer->warnings)
      std::fputs(("rdzvd: warning: " + warning + "\n").c_str(), stderr);
    const auto seen = ddprun::rdzv::observe(*observer);
    if (seen.exit_code == 0)
      return ddprun::print_text("rdzvd", seen.text, has_stdout) ? 0 : ddprun::kExitOutput;
    std::fputs(seen.text.c_str(), stderr);
    return seen.exit_code;
  }
  return ddprun::rdzv::run_daemon(std::get<ddprun::rdzv::DaemonOptions>(parsed));
}
