// The program `rdzvd`: options, then the daemon.
#include <cstdio>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/daemon/daemon.hpp"
#include "rendezvous/daemon/options.hpp"

int main(int argc, char** argv) {
  try {
    const auto parsed =
        ddprun::rdzv::parse_daemon_options(std::vector<std::string>(argv + 1, argv + argc));
    if (const auto* exit = std::get_if<ddprun::rdzv::DaemonExit>(&parsed)) {
      std::fputs(exit->text.c_str(), exit->code == 0 ? stdout : stderr);
      return exit->code;
    }
    return ddprun::rdzv::run_daemon(std::get<ddprun::rdzv::DaemonOptions>(parsed));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rdzvd: %s\n", error.what());
    return ddprun::rdzv::kExitListen;
  }
}
