// The program `ddpctl`: options, then a question to a running job.
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "base/exit_codes.hpp"
#include "base/program_main.hpp"
#include "launcher/ctl/commands.hpp"
#include "launcher/ctl/ctl_options.hpp"

int main(int argc, char** argv) {
  const bool has_stdout = ddprun::ensure_standard_descriptors();
  ddprun::end_on_uncaught_exception("ddpctl", ddprun::kExitInternal);
  const auto parsed =
      ddprun::ctl::parse_ctl_options(std::vector<std::string>(argv + 1, argv + argc));
  if (const auto* options = std::get_if<ddprun::ctl::CtlOptions>(&parsed))
    return ddprun::ctl::run(*options, has_stdout);
  const auto& exit = std::get<ddprun::ctl::CtlExit>(parsed);
  if (exit.code == 0)
    return ddprun::print_text("ddpctl", exit.text, has_stdout) ? 0 : ddprun::kExitOutput;
  std::fputs(exit.text.c_str(), stderr);
  return exit.code;
}
