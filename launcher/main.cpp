// ddprun: command line -> plan -> warden and agent -> report.
#include <unistd.h>

#include <string>
#include <vector>

#include "agent/control/node_checks.hpp"
#include "agent/workers/worker_environment.hpp"
#include "base/exit_codes.hpp"
#include "base/printable.hpp"
#include "base/program_main.hpp"
#include "base/version.hpp"
#include "launcher/doctor/examine.hpp"
#include "launcher/make_secret.hpp"
#include "launcher/plan/dry_run.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/run_job.hpp"
#include "launcher/ssh/launch_from_here.hpp"
#include "launcher/texts/texts.hpp"
#include "proto/environment_names.hpp"
#include "rendezvous/membership/restart_policy.hpp"
#include "warden/own_process.hpp"

namespace {

using namespace ddprun;
using launcher::Request;

/// What ddprun prints to stdout and is asked for alone.
class Screen {
 public:
  explicit Screen(bool has_stdout) : has_stdout_(has_stdout) {}
  int operator()(const std::string& text) const {
    return print_text("ddprun", text, has_stdout_) ? kExitSuccess : kExitOutput;
  }

 private:
  const bool has_stdout_;
};

launcher::RankZeroEnvironment rank_zero_environment(const launcher::LaunchPlan& plan) {
  proto::Round round;
  round.world_size = round.role_world_size = static_cast<int>(plan.agent.workers.size());
  round.max_restarts = plan.agent.job.restart.max_restarts;
  round.master_addr = plan.agent.store.master_addr;
  round.master_port = plan.agent.store.master_port;
  std::vector<std::string> inherited;
  for (char** entry = environ; *entry != nullptr; ++entry) inherited.emplace_back(*entry);
  launcher::RankZeroEnvironment environment =
      agent::worker_environment(plan.agent, round, round, 0, "", inherited);
  environment.emplace_back(proto::env::kJobSocket, "");  // its name is known at the start
  return environment;
}

int show_help(const launcher::TextsOptions& texts, const Screen& print) {
  if (texts.topic.empty())
    return print(launcher::help_text() + launcher::line_on_next_word(texts.word_behind));
  const auto shown = launcher::help_on(texts.topic);
  return shown.found ? print(shown.text) : launcher::fail(launcher::usage_error(shown.text));
}

int make_secret(const launcher::LaunchOptions& options, const launcher::Environment& environment,
                const Screen& print) {
  const auto made = launcher::make_secret_file(launcher::secret_path(options, environment));
  return made ? print(*made) : launcher::fail(made.error());
}

int look_at_machine(const launcher::Environment& environment, const machine::UserState& user,
                    const Screen& print) {
  const auto facts = launcher::look_at_machine(environment, launcher::machine_probes(), user);
  return print(printable(launcher::doctor_text(launcher::examine(facts)), "\n"));
}

int dry_run(const launcher::LaunchOptions& options, const launcher::Environment& environment,
            const Screen& print) {
  const auto plan = launcher::make_plan(options, environment, launcher::machine_probes());
  if (!plan) return launcher::fail(plan.error());
  const auto rank_zero = rank_zero_environment(*plan);
  return print(options.request == Request::dry_run_json ? launcher::dry_run_json(*plan, rank_zero)
                                                        : launcher::dry_run_text(*plan, rank_zero));
}

/// A job on other hosts.
int launch_on_hosts(const launcher::LaunchOptions& options,
                    const launcher::Environment& environment,
                    const launcher::Invocation& invocation, const Screen& print) {
  auto launch = launcher::launch_from_here(options, environment, invocation.command,
                                           launcher::current_folder());
  if (!launch) return launcher::fail(launch.error());
  if (options.request == Request::dry_run) return print(launcher::ssh_dry_run_text(*launch));
  if (options.request == Request::dry_run_json) return print(launcher::ssh_dry_run_json(*launch));
  for (const std::string& warning : launch->warnings) launcher::warn(options.log_level, warning);
  return launcher::run_ssh_job(std::move(*launch), invocation.user);
}

/// A job, or what it would be.
int start(const launcher::LaunchOptions& options, const launcher::Environment& environment,
          const launcher::Invocation& invocation, const Screen& print) {
  const bool runs = options.request == Request::run;
  if (runs && !options.report.file.empty()) {
    if (const auto emptied = launcher::empty_report(options.report.file); !emptied)
      return launcher::fail(emptied.error());
  }
  if (!options.hosts.spelling.empty())
    return launch_on_hosts(options, environment, invocation, print);
  return runs ? launcher::plan_and_run(options, environment, invocation)
              : dry_run(options, environment, print);
}

}  // namespace

int main(int argc, char** argv) {
  const Screen print(ensure_standard_descriptors());
  end_on_uncaught_exception("ddprun", kExitInternal);
  const machine::UserState user = machine::UserState::take();
  if (argc == 3 && argv[1] == launcher::kNodeArgument)
    return launcher::run_as_node(argv[2], warden::title_room(argc, argv), user);
  if (argc == 3 && argv[1] == agent::kAwaitGpusArgument) return agent::await_gpus(argv[2]);

  const launcher::Environment environment = launcher::environment_from(environ);
  const std::vector<std::string> command(argv, argv + argc);
  const auto options = launcher::options_in(command, environment);
  if (!options) return launcher::fail(options.error());
  const launcher::TextsOptions& texts = options->texts;
  if (const auto shown = launcher::help_on_next_word(texts.word_behind); !shown.empty())
    return print(shown);
  switch (options->request) {
    case Request::short_help:
      return print(launcher::short_help_text() + launcher::line_on_next_word(texts.word_behind));
    case Request::help:
      return show_help(texts, print);
    case Request::version:
      return print(version_text("ddprun"));
    case Request::man_page:
      return print(launcher::man_page(texts.man_format));
    case Request::completion:
      return print(launcher::completion_script(texts.completion_shell));
    case Request::explain_policy:
      return print(rdzv::explain(options->failures.restart));
    case Request::doctor:
      return look_at_machine(environment, user, print);
    case Request::make_secret:
      return make_secret(*options, environment, print);
    case Request::run:
    case Request::dry_run:
    case Request::dry_run_json:
      break;
  }
  return start(*options, environment, {command, warden::title_room(argc, argv), user}, print);
}
