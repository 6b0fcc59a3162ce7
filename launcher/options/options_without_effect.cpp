#include "launcher/options/options_without_effect.hpp"

#include <array>
#include <string_view>

#include "launcher/options/option_rows.hpp"

namespace ddprun::launcher {
namespace {

struct Need {
  std::string_view text;
  bool met = false;
};

struct OptionWithNeed {
  RowRef row;
  Need need;
};

}  // namespace

std::vector<std::string> options_without_effect(const ParsedCommandLine& parsed,
                                                const LaunchOptions& options) {
  const bool several_nodes =
      !options.hosts.spelling.empty() || (options.nodes.count.max > 1 && !options.nodes.standalone);
  // A node that is lost restarts the others, whatever --max-restarts is.
  const Need restarts{"nothing is restarted without --max-restarts=N",
                      options.failures.restart.max_restarts > 0 || several_nodes};
  const Need nodes{"the job has one node", several_nodes};
  const Need log_timeout{"no silence is looked for without --log-timeout=SECONDS",
                         options.failures.watch.log_timeout.count() > 0};
  const Need log_size{"log files have no limit without --log-max-size=SIZE",
                      options.output.logs.lines.rotation.bytes_max > 0};
  const Need log_files{"no output goes to files without --redirects or --tee",
                       !options.output.logs.redirects.empty() || !options.output.logs.tee.empty()};
  const Need preflight{"no check runs without --preflight=COMMAND",
                       !options.failures.preflight.empty()};
  const std::array<OptionWithNeed, 14> all{{
      {"restart-window", restarts},
      {"restart-delay", restarts},
      {"min-uptime", restarts},
      {"no-restart-on", restarts},
      {"max-node-changes", nodes},
      {"grow-delay", nodes},
      {"rdzv-tls", nodes},
      {"rdzv-tls-ca", nodes},
      {"rdzv-tls-cert", nodes},
      {"rdzv-tls-key", nodes},
      {"on-silence", log_timeout},
      {"log-max-size", log_files},
      {"log-keep", log_size},
      {"preflight-timeout", preflight},
  }};
  std::vector<std::string> warnings;
  for (const auto& [row, need] : all) {
    if (!need.met && parsed.spelling(row).starts_with("--"))
      warnings.push_back(parsed.spelling(row) + " has no effect here: " + std::string(need.text));
  }
  return warnings;
}

}  // namespace ddprun::launcher
