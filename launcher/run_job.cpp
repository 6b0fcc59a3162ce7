#include "launcher/run_job.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "agent/agent.hpp"
#include "base/bounded_write.hpp"
#include "base/open_file.hpp"
#include "base/printable.hpp"
#include "launcher/log_folder.hpp"
#include "launcher/options/enum_words.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/report/report.hpp"
#include "launcher/report/report_file.hpp"
#include "launcher/report/report_json.hpp"
#include "launcher/report/report_parts.hpp"
#include "launcher/run_folder.hpp"
#include "launcher/ssh/node.hpp"
#include "launcher/ssh/ssh_launch.hpp"
#include "machine/processes/process_tree.hpp"
#include "proto/membership_messages.hpp"
#include "warden/warden.hpp"

namespace ddprun::launcher {

namespace {

constexpr std::chrono::seconds kReportLimit{2};

// Without one workers leave no error files. In memory where TMPDIR does not say otherwise: a folder
// on a disk costs as much as starting a worker.
RunFolder make_folder_of_run() {
  for (const std::string& base : {temporary_base("/dev/shm"), std::string("/tmp")}) {
    auto folder = make_run_folder(base);
    if (!folder.path.empty()) return folder;
  }
  return {};
}

// The job's own exit code wins; a report that is lost costs only a warning.
void write_report(const std::string& path, const std::string& json, UnfinishedLines& unfinished,
                  LogLevel level) {
  const auto result = write_report_file(path, json, unfinished);
  if (result.to_stderr) unfinished.on_stderr = false;
  if (result.error == 0) return;
  warn(level, "cannot write report " + path + ": " + why_not_written(result.error));
}

void say_report(const std::string& text, std::optional<bool> unfinished) {
  if (text.empty()) return;
  write_within(STDERR_FILENO, line_start(STDERR_FILENO, unfinished) + printable(text, "\n\t"),
               kReportLimit);
}

/// For a launcher that started ddprun as its worker, or another program that reads such files.
void copy_error_file(const std::string& path, const agent::AgentResult& result, LogLevel level) {
  if (path.empty()) return;
  const auto json = error_file_copy(result, std::chrono::system_clock::now());
  if (!json) return;
  const std::string problem = write_error_file_copy(path, *json);
  if (!problem.empty()) warn(level, problem);
}

bool has_value(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

/// The launcher prints the report, of one node, and writes the files.
int tell_launcher(const agent::AgentResult& result, int code, const LaunchPlan& plan,
                  const JobFacts& facts, const NodePlan& node) {
  NodeEnd end;
  end.exit_code = code;
  end.has_culprit = result.finished.verdict && result.culprit.is_here;
  end.reports = result.finished.report_at.empty();
  end.cancelled = result.finished.outcome == proto::Finished::Outcome::cancelled;
  end.text = printable(report(result, code), "\n\t");
  if (!plan.report.file.empty() && end.reports) end.json = report_json(result, code, facts);
  if (node.wants_error_file) {
    end.error_file =
        error_file_copy(result, std::chrono::system_clock::now()).value_or(std::string());
  }
  send_end(end, node.mark);
  unlink(node.socket.c_str());
  return code;
}

/// Prints and writes what is known at the end; the exit code.
int finish(const agent::AgentResult& result, const LaunchPlan& plan, const JobFacts& facts,
           LogLevel level, const NodePlan* node) {
  const int code = exit_code(result, plan.report.exit_code_rule);
  if (node != nullptr) return tell_launcher(result, code, plan, facts, *node);
  UnfinishedLines unfinished{result.output.stdout_unfinished, result.output.stderr_unfinished};
  if (!plan.report.file.empty() && result.finished.report_at.empty())
    write_report(plan.report.file, report_json(result, code, facts), unfinished, level);
  const std::string chaos = result.chaos ? chaos_text(*result.chaos) : "";
  say_report(report(result, code) + chaos, unfinished.on_stderr);
  copy_error_file(plan.report.error_file, result, level);
  return code;
}

/// What a report of a failed worker needs to know of PROGRAM.
void take_program_facts(LaunchPlan& plan) {
  proto::ProgramFacts& program = plan.agent.report.program;
  program.python = plan.program.python;
  program.other_environment = plan.program.other_environment;
  program.python_is_wanted = has_value("PYTHON_EXEC");
  program.shows_crashes = has_value("PYTHONFAULTHANDLER") || has_value("PYTHONDEVMODE");
  program.stdin_goes_to = word_of(plan.agent.streams.standard_input);
  program.program = plan.program.name;
  program.chooses_store_port = plan.agent.store.master_port == 0;
}

/// `node`: of a launcher that started us through ssh; null: this ddprun is its own launcher.
int run(LaunchPlan plan, LogLevel level, const Invocation& invocation, const NodePlan* node) {
  auto log_folder = make_log_folder(plan);
  if (!log_folder) return fail(log_folder.error());
  if (plan.log_folder.wanted && plan.log_folder.base.empty())
    std::fprintf(stderr, "ddprun: logs are in %s (see --log-dir)\n",
                 printable(*log_folder).c_str());
  plan.agent.logs.folder = std::move(*log_folder);
  const RunFolder run_folder = make_folder_of_run();
  plan.agent.run_directory = plan.warden.run_directory = run_folder.path;
  plan.warden.has_work_beside = [&run_folder] { return has_other_run_folders(run_folder.path); };
  plan.warden.work_beside = [&run_folder] {
    remove_dead_run_folders(std::filesystem::path(run_folder.path).parent_path().string());
  };
  plan.warden.title_room = invocation.title_room;
  take_program_facts(plan);
  const JobFacts facts{plan.agent.run_id, invocation.command, current_folder(),
                       plan.agent.logs.folder};
  const auto conclude = [&](const agent::AgentResult& result) {
    return finish(result, plan, facts, level, node);
  };
  auto scheduler = machine::find_ancestor(plan.scheduler_processes);
  return warden::run_warden(plan.warden, [&](warden::WardenLink link) {
    agent::run_agent(plan.agent, invocation.user, std::move(link), std::move(scheduler), conclude);
  });
}

}  // namespace

int fail(const LaunchError& error) {
  std::fprintf(stderr, "ddprun: %s%s\n", error.message.c_str(), error.more.c_str());
  return error.exit_code;
}

void warn(LogLevel level, const std::string& problem) {
  if (level > LogLevel::warning) return;
  write_within(STDERR_FILENO, "ddprun: warning: " + printable(problem) + "\n", kReportLimit);
}

std::string current_folder() {
  std::error_code failed;
  const auto folder = std::filesystem::current_path(failed);
  return failed ? std::string() : folder.string();
}

LaunchResult<LaunchOptions> options_in(const std::vector<std::string>& words,
                                       const Environment& environment) {
  auto options = parse_launch_options({words.begin() + 1, words.end()}, environment);
  if (options)
    options->output.logs.called_torchrun =
        std::filesystem::path(words.front()).filename() == "torchrun";
  return options;
}

LaunchResult<void> empty_report(const std::string& path) {
  const auto result = empty_report_file(path);
  if (result.error == 0) return {};
  return usage_error("--report: cannot write " + path + ": " + why_not_written(result.error) +
                     "; give --report a file that you can write to");
}

/// Whether events can be written there; the file is made.
LaunchResult<void> check_event_log(const std::string& path) {
  if (path.empty()) return {};
  const auto fd = open_named_file(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
  if (fd) return {};
  return usage_error("--event-log: cannot write " + path + ": " + fd.error().message() +
                     "; give --event-log a regular file that you can write to");
}

int plan_and_run(const LaunchOptions& options, const Environment& environment,
                 const Invocation& invocation, const NodePlan* node) {
  if (const auto checked = check_event_log(options.report.event_log); !checked)
    return fail(checked.error());
  auto plan = make_plan(options, environment, machine_probes());
  if (!plan) return fail(plan.error());
  for (const std::string& warning : plan->warnings) warn(options.log_level, warning);
  for (const std::string& note : plan->notes)
    std::fprintf(stderr, "ddprun: %s\n", printable(note).c_str());
  return run(std::move(*plan), options.log_level, invocation, node);
}

int run_as_node(const std::string& socket, std::span<char> title_room,
                const machine::UserState& user) {
  const auto ssh_connection = lookup(environment_from(environ), "SSH_CONNECTION");
  const auto node = become_node(socket);
  if (!node) return fail(node.error());
  const Environment environment = environment_from(environ);
  const auto options = options_in(node->command, environment);
  if (!options) return fail(options.error());
  return plan_and_run(options_on_node(*options, *node, address_of_node(ssh_connection)),
                      environment, {node->command, title_room, user}, &*node);
}

}  // namespace ddprun::launcher
