// ddprun: command line -> plan -> warden and agent -> report.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/agent.hpp"
#include "agent/control/node_checks.hpp"
#include "agent/workers/worker_environment.hpp"
#include "base/bounded_write.hpp"
#include "base/exit_codes.hpp"
#include "base/printable.hpp"
#include "base/program_main.hpp"
#include "base/version.hpp"
#include "launcher/doctor/examine.hpp"
#include "launcher/log_folder.hpp"
#include "launcher/make_secret.hpp"
#include "launcher/options/enum_words.hpp"
#include "launcher/options/options.hpp"
#include "launcher/plan/dry_run.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/plan/secret_path.hpp"
#include "launcher/report/chaos_text.hpp"
#include "launcher/report/error_file_copy.hpp"
#include "launcher/report/report.hpp"
#include "launcher/report/report_file.hpp"
#include "launcher/report/report_json.hpp"
#include "launcher/run_folder.hpp"
#include "launcher/ssh/launch_from_here.hpp"
#include "launcher/ssh/node.hpp"
#include "launcher/texts/texts.hpp"
#include "machine/processes/ancestor.hpp"
#include "proto/environment_names.hpp"
#include "warden/process_title.hpp"
#include "warden/warden.hpp"

namespace {

using namespace ddprun;

int fail(const launcher::LaunchError& error) {
  std::fprintf(stderr, "ddprun: %s%s\n", error.message.c_str(), error.more.c_str());
  return error.exit_code;
}

// Without one workers leave no error files. In memory where TMPDIR does not say otherwise: a folder
// on a disk costs as much as starting a worker.
launcher::RunFolder make_run_folder() {
  for (const std::string& base : {launcher::temporary_base("/dev/shm"), std::string("/tmp")}) {
    auto folder = launcher::make_run_folder(base);
    if (!folder.path.empty()) return folder;
  }
  return {};
}

launcher::RankZeroEnvironment rank_zero_environment(const launcher::LaunchPlan& plan) {
  proto::Round round;
  round.world_size = round.role_world_size = static_cast<int>(plan.agent.workers.size());
  round.max_restarts = plan.agent.job.restart.max_restarts;
  round.master_addr = plan.agent.master_addr;
  round.master_port = plan.agent.master_port;
  std::vector<std::string> inherited;
  for (char** entry = environ; *entry != nullptr; ++entry) inherited.emplace_back(*entry);
  launcher::RankZeroEnvironment environment =
      agent::worker_environment(plan.agent, round, 0, "", inherited);
  environment.emplace_back(proto::env::kJobSocket, "");  // its name is known at the start
  return environment;
}

constexpr std::chrono::seconds kReportLimit{2};

void warn(launcher::LogLevel level, const std::string& problem) {
  if (level > launcher::LogLevel::warning) return;
  write_within(STDERR_FILENO, "ddprun: warning: " + printable(problem) + "\n", kReportLimit);
}

// The job's own exit code wins; a report that is lost costs only a warning.
void write_report(const std::string& path, const std::string& json,
                  launcher::UnfinishedLines& unfinished, launcher::LogLevel level) {
  const auto result = launcher::write_report_file(path, json, unfinished);
  if (result.to_stderr) unfinished.on_stderr = false;
  if (result.error == 0) return;
  warn(level, "cannot write report " + path + ": " + launcher::why_not_written(result.error));
}

// A report of an earlier job must not outlive this one. A wrong path ends ddprun here: at
// the end, the report of a long job would be lost.
std::optional<launcher::LaunchError> empty_report(const std::string& path) {
  const auto result = launcher::empty_report_file(path);
  if (result.error == 0) return std::nullopt;
  return launcher::usage_error("--report: cannot write " + path + ": " +
                               launcher::why_not_written(result.error) +
                               "; give --report a file that you can write to");
}

void say_report(const std::string& text, std::optional<bool> unfinished) {
  if (text.empty()) return;
  write_within(STDERR_FILENO, line_start(STDERR_FILENO, unfinished) + printable(text, "\n\t"),
               kReportLimit);
}

/// For a launcher that started ddprun as its worker, or another program that reads such files.
void copy_error_file(const std::string& path, const agent::AgentResult& result,
                     launcher::LogLevel level) {
  if (path.empty()) return;
  const auto json = launcher::error_file_copy(result, std::chrono::system_clock::now());
  if (!json) return;
  const std::string problem = launcher::write_error_file_copy(path, *json);
  if (!problem.empty()) warn(level, problem);
}

bool has_value(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

/// Empty: it was deleted.
std::string current_folder() {
  std::error_code failed;
  const auto folder = std::filesystem::current_path(failed);
  return failed ? std::string() : folder.string();
}

/// The launcher prints the report, of one node, and writes the files.
int tell_launcher(const agent::AgentResult& result, int code, const launcher::LaunchPlan& plan,
                  const launcher::JobFacts& facts, const launcher::NodePlan& node) {
  launcher::NodeEnd end;
  end.exit_code = code;
  end.has_culprit = result.finished.verdict && result.culprit.is_here;
  end.reports = result.finished.report_at.empty();
  end.cancelled = result.finished.outcome == proto::Finished::Outcome::cancelled;
  end.text = printable(launcher::report(result, code), "\n\t");
  if (!plan.report.file.empty() && end.reports)
    end.json = launcher::report_json(result, code, facts);
  if (node.wants_error_file) {
    end.error_file =
        launcher::error_file_copy(result, std::chrono::system_clock::now()).value_or(std::string());
  }
  launcher::send_end(end, node.mark);
  unlink(node.socket.c_str());
  return code;
}

/// `node`: of a launcher that started us through ssh; null: this ddprun is its own launcher.
int run(launcher::LaunchPlan plan, launcher::LogLevel level,
        const std::vector<std::string>& command, std::span<char> title_room,
        const machine::UserState& user, const launcher::NodePlan* node) {
  auto log_folder = launcher::make_log_folder(plan);
  if (!log_folder) return fail(log_folder.error());
  if (plan.log_folder.wanted && plan.log_folder.base.empty())
    std::fprintf(stderr, "ddprun: logs are in %s (see --log-dir)\n",
                 printable(*log_folder).c_str());
  plan.agent.log_folder = std::move(*log_folder);
  const launcher::RunFolder run_folder = make_run_folder();
  plan.agent.run_directory = plan.warden.run_directory = run_folder.path;
  plan.warden.has_work_beside = [&run_folder] {
    return launcher::has_other_run_folders(run_folder.path);
  };
  plan.warden.work_beside = [&run_folder] {
    launcher::remove_dead_run_folders(
        std::filesystem::path(run_folder.path).parent_path().string());
  };
  plan.warden.title_room = title_room;
  proto::ProgramFacts& program = plan.agent.program;
  program.python = plan.program.python;
  program.other_environment = plan.program.other_environment;
  program.python_is_wanted = has_value("PYTHON_EXEC");
  program.shows_crashes = has_value("PYTHONFAULTHANDLER") || has_value("PYTHONDEVMODE");
  program.stdin_goes_to = word_of(plan.agent.standard_input);
  program.program = plan.program.name;
  program.chooses_store_port = plan.agent.master_port == 0;
  const launcher::JobFacts facts{plan.agent.run_id, command, current_folder(),
                                 plan.agent.log_folder};
  const auto conclude = [&](const agent::AgentResult& result) {
    const int code = launcher::exit_code(result, plan.report.exit_code_rule);
    if (node != nullptr) return tell_launcher(result, code, plan, facts, *node);
    launcher::UnfinishedLines unfinished{result.output.stdout_unfinished,
                                         result.output.stderr_unfinished};
    if (!plan.report.file.empty() && result.finished.report_at.empty())
      write_report(plan.report.file, launcher::report_json(result, code, facts), unfinished, level);
    const std::string chaos = result.chaos ? launcher::chaos_text(*result.chaos) : "";
    say_report(launcher::report(result, code) + chaos, unfinished.on_stderr);
    copy_error_file(plan.report.error_file, result, level);
    return code;
  };
  auto scheduler = machine::find_ancestor(plan.scheduler_processes);
  return warden::run_warden(plan.warden, [&](warden::WardenLink link) {
    agent::run_agent(plan.agent, user, std::move(link), std::move(scheduler), conclude);
  });
}

/// Plans the job of this node and runs it.
int plan_and_run(const launcher::LaunchOptions& options, const launcher::Environment& environment,
                 const std::vector<std::string>& command, std::span<char> title_room,
                 const machine::UserState& user, const launcher::NodePlan* node) {
  auto plan = launcher::make_plan(options, environment, launcher::machine_probes());
  if (!plan) return fail(plan.error());
  for (const std::string& warning : plan->warnings) warn(options.log_level, warning);
  for (const std::string& note : plan->notes)
    std::fprintf(stderr, "ddprun: %s\n", printable(note).c_str());
  return run(std::move(*plan), options.log_level, command, title_room, user, node);
}

/// `words` begin with the name by which ddprun was started.
launcher::LaunchResult<launcher::LaunchOptions> options_in(
    const std::vector<std::string>& words, const launcher::Environment& environment) {
  auto options = launcher::parse_launch_options({words.begin() + 1, words.end()}, environment);
  if (options)
    options->output.logs.called_torchrun =
        std::filesystem::path(words.front()).filename() == "torchrun";
  return options;
}

/// As one node of a job that a launcher on another host has started.
int run_as_node(const std::string& socket, std::span<char> title_room,
                const machine::UserState& user) {
  const auto ssh_connection =
      launcher::lookup(launcher::environment_from(environ), "SSH_CONNECTION");
  const auto node = launcher::become_node(socket);
  if (!node) return fail(node.error());
  const launcher::Environment environment = launcher::environment_from(environ);
  const auto options = options_in(node->command, environment);
  if (!options) return fail(options.error());
  return plan_and_run(
      launcher::options_on_node(*options, *node, launcher::address_of_node(ssh_connection)),
      environment, node->command, title_room, user, &*node);
}

}  // namespace

int main(int argc, char** argv) {
  const bool has_stdout = ensure_standard_descriptors();
  end_on_uncaught_exception("ddprun", kExitInternal);
  const machine::UserState user = machine::UserState::take();
  if (argc == 3 && argv[1] == launcher::kNodeArgument)
    return run_as_node(argv[2], warden::title_room(argc, argv), user);
  if (argc == 3 && argv[1] == agent::kAwaitGpusArgument) return agent::await_gpus(argv[2]);
  const launcher::Environment environment = launcher::environment_from(environ);

  const auto print = [has_stdout](const std::string& text) {
    return print_text("ddprun", text, has_stdout) ? kExitSuccess : kExitOutput;
  };
  const auto options = options_in({argv, argv + argc}, environment);
  if (!options) return fail(options.error());
  if (const auto shown = launcher::help_on_next_word(options->texts.word_behind); !shown.empty())
    return print(shown);
  const std::string line_behind_help = launcher::line_on_next_word(options->texts.word_behind);
  switch (options->request) {
    case launcher::Request::short_help:
      return print(launcher::short_help_text() + line_behind_help);
    case launcher::Request::help: {
      if (options->texts.topic.empty()) return print(launcher::help_text() + line_behind_help);
      const auto shown = launcher::help_on(options->texts.topic);
      return shown.found ? print(shown.text) : fail(launcher::usage_error(shown.text));
    }
    case launcher::Request::version:
      return print(ddprun::version_text("ddprun"));
    case launcher::Request::man_page:
      return print(launcher::man_page(options->texts.man_format));
    case launcher::Request::completion:
      return print(launcher::completion_script(options->texts.completion_shell));
    case launcher::Request::explain_policy:
      return print(rdzv::explain(options->failures.restart));
    case launcher::Request::doctor:
      return print(printable(launcher::doctor_text(launcher::examine(launcher::look_at_machine(
                                 environment, launcher::machine_probes(), user))),
                             "\n"));
    case launcher::Request::make_secret: {
      const auto made = launcher::make_secret_file(launcher::secret_path(*options, environment));
      return made ? print(*made) : fail(made.error());
    }
    case launcher::Request::run:
    case launcher::Request::dry_run:
    case launcher::Request::dry_run_json:
      break;
  }

  if (options->request == launcher::Request::run && !options->report.file.empty()) {
    if (const auto error = empty_report(options->report.file)) return fail(*error);
  }
  if (!options->hosts.spelling.empty()) {
    auto launch =
        launcher::launch_from_here(*options, environment, {argv, argv + argc}, current_folder());
    if (!launch) return fail(launch.error());
    if (options->request == launcher::Request::dry_run)
      return print(launcher::ssh_dry_run_text(*launch));
    if (options->request == launcher::Request::dry_run_json)
      return print(launcher::ssh_dry_run_json(*launch));
    for (const std::string& warning : launch->warnings) warn(options->log_level, warning);
    return launcher::run_ssh_job(std::move(*launch), user);
  }
  const std::vector<std::string> command(argv, argv + argc);
  if (options->request == launcher::Request::run)
    return plan_and_run(*options, environment, command, warden::title_room(argc, argv), user,
                        nullptr);
  const auto plan = launcher::make_plan(*options, environment, launcher::machine_probes());
  if (!plan) return fail(plan.error());
  const bool is_json = options->request == launcher::Request::dry_run_json;
  const auto rank_zero = rank_zero_environment(*plan);
  return print(is_json ? launcher::dry_run_json(*plan, rank_zero)
                       : launcher::dry_run_text(*plan, rank_zero));
}
