#include "launcher/options/options.hpp"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <utility>

#include "base/lower_case.hpp"
#include "base/shell_word.hpp"
#include "base/trimmed.hpp"
#include "launcher/options/chaos_option.hpp"
#include "launcher/options/option_rows.hpp"
#include "launcher/options/option_value.hpp"
#include "launcher/options/options_without_effect.hpp"
#include "launcher/options/other_launchers.hpp"
#include "launcher/options/rendezvous_options.hpp"

namespace ddprun::launcher {
namespace {

constexpr long long kMaxRestartsMax = 1'000'000'000;
constexpr long long kProcessesMax = 65'536;
constexpr long long kOmpThreadsMax = 65'536;
constexpr int kExitCodeMax = 255;
constexpr std::string_view kDoctor = "doctor";

Request request_of(const ParsedCommandLine& parsed) {
  if (parsed.ended_by == RowRef("help"))
    return parsed.spelling("help") == "-h" ? Request::short_help : Request::help;
  if (parsed.ended_by == RowRef("version")) return Request::version;
  if (parsed.ended_by == RowRef("man")) return Request::man_page;
  if (parsed.ended_by == RowRef("completion")) return Request::completion;
  if (parsed.flag("explain-policy")) return Request::explain_policy;
  if (parsed.flag("make-secret")) return Request::make_secret;
  if (!parsed.given("dry-run")) return Request::run;
  return parsed.text("dry-run") == "json" ? Request::dry_run_json : Request::dry_run;
}

/// What else was asked for that would not be done; empty: nothing.
std::string beside_make_secret(const ParsedCommandLine& parsed) {
  if (!parsed.flag("make-secret")) return "";
  if (parsed.program) return *parsed.program;
  if (parsed.given("dry-run")) return "--dry-run";
  return parsed.flag("explain-policy") ? "--explain-policy" : "";
}

LaunchResult<ProcessCount> process_count(const ParsedCommandLine& parsed) {
  ProcessCount processes;
  processes.given = parsed.given("nproc-per-node");
  if (!processes.given) return processes;
  const std::string text = parsed.text("nproc-per-node");
  if (text == "auto") {
    processes.kind = ProcessCount::Kind::automatic;
  } else if (text == "cpu") {
    processes.kind = ProcessCount::Kind::cpu;
  } else if (!parse_integer(text)) {  // another word of the option's row
    processes.kind = ProcessCount::Kind::devices;
    processes.word = text;
  } else {
    const auto number = parsed.integer_up_to("nproc-per-node", kProcessesMax);
    if (!number) return number.error();
    processes.number = *number;
  }
  return processes;
}

GpuSelection gpu_selection(const ParsedCommandLine& parsed) {
  constexpr std::string_view kFree = "free";
  GpuSelection selection;
  selection.given = parsed.given("gpus");
  selection.spelling = parsed.spelling("gpus");
  const std::string text = parsed.text("gpus");
  if (text == "none") {
    selection.kind = GpuSelection::Kind::none;
  } else if (text.starts_with(kFree)) {
    selection.kind = GpuSelection::Kind::free;
    if (text.size() > kFree.size())
      selection.count = static_cast<int>(parse_integer(text.substr(kFree.size() + 1)).value_or(0));
  } else if (text != "all") {
    selection.kind = GpuSelection::Kind::list;
    selection.list = parse_indexes(text).value_or(std::vector<int>{});
  }
  return selection;
}

/// torchrun's LOGLEVEL: a name or a number of Python's logging. What we don't understand is meant
/// for others.
LogLevel log_level(const ParsedCommandLine& parsed, const Environment& environment) {
  if (parsed.given("log-level")) return choice<LogLevel>(parsed, "log-level");
  const auto variable = lookup(environment, "LOGLEVEL");
  if (!variable) return LogLevel::warning;
  if (const auto number = parse_integer(*variable)) {
    if (*number <= 0) return LogLevel::warning;
    if (*number <= 10) return LogLevel::debug;
    if (*number <= 20) return LogLevel::info;
    return *number <= 30 ? LogLevel::warning : LogLevel::error;
  }
  return value_of<LogLevel>(lower_case(*variable)).value_or(LogLevel::warning);
}

LaunchResult<OmpThreads> omp_threads(const ParsedCommandLine& parsed) {
  OmpThreads threads;
  if (!parsed.given("omp-threads")) return threads;
  if (parsed.text("omp-threads") == "auto") {
    threads.kind = OmpThreads::Kind::automatic;
    return threads;
  }
  const auto number = parsed.integer_up_to("omp-threads", kOmpThreadsMax);
  if (!number) return number.error();
  threads.kind = OmpThreads::Kind::number;
  threads.number = *number;
  return threads;
}

/// Everything about signals and how long is waited behind them.
LaunchResult<void> take_stopping(const ParsedCommandLine& parsed, const Environment& environment,
                                 LaunchOptions& options) {
  machine::StopSettings& stop = options.failures.stop;
  stop.grace_period = parsed.seconds("grace-period").value_or(stop.grace_period);
  options.failures.grace_period_given = parsed.given("grace-period");
  stop.kill_timeout = parsed.seconds("kill-timeout").value_or(stop.kill_timeout);
  if (!parsed.given("grace-period")) {
    // torchrun's second variable for the same thing.
    if (const auto variable = lookup(environment, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT")) {
      const auto seconds = parse_seconds(*variable);
      if (!seconds) {
        return usage_error("TORCH_ELASTIC_SHUTDOWN_TIMEOUT=" + *variable +
                           ": expected a number of seconds, 0 or at least 0.001");
      }
      stop.grace_period = *seconds;
      options.failures.grace_period_given = true;
    }
  }
  auto signals =
      parse_signals(parsed.text("signals-to-handle"), parsed.spelling("signals-to-handle"));
  options.warnings.insert(options.warnings.end(), signals.warnings.begin(), signals.warnings.end());
  if (signals.signals.empty() && !signals.unknown.empty()) {
    return usage_error(parsed.spelling("signals-to-handle") + ": unknown signal " +
                       signals.unknown + "; the usual ones are SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  }
  if (signals.signals.empty()) {
    return usage_error(parsed.spelling("signals-to-handle") +
                       ": no signal is left that could end the job; the usual ones are "
                       "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  }
  stop.signals = std::move(signals.signals);
  auto forward = parse_signals(parsed.text("forward-signals"), parsed.spelling("forward-signals"));
  options.warnings.insert(options.warnings.end(), forward.warnings.begin(), forward.warnings.end());
  for (const int signal : forward.signals) {
    if (std::find(stop.signals.begin(), stop.signals.end(), signal) != stop.signals.end()) {
      return usage_error(
          parsed.spelling("forward-signals") +
          ": a signal cannot both end the job and only be passed on; leave it out of "
          "--signals-to-handle (default: SIGTERM,SIGINT,SIGHUP,SIGQUIT)");
    }
  }
  stop.forward_signals = std::move(forward.signals);
  const auto is_taken = [](const std::vector<int>& by) {
    return std::find(by.begin(), by.end(), SIGUSR2) != by.end();
  };
  if (!is_taken(stop.signals) && !is_taken(stop.forward_signals)) {
    stop.save_signal = SIGUSR2;
    stop.forward_signals.push_back(SIGUSR2);
  }
  return {};
}

LaunchResult<void> take_chaos(const ParsedCommandLine& parsed, FailuresOptions& failures) {
  if (!parsed.given("chaos")) return {};
  auto plan = parse_chaos(parsed.text("chaos"));
  if (!plan) return plan.error();
  failures.chaos = std::move(*plan);
  return {};
}

LaunchResult<void> take_commands(const ParsedCommandLine& parsed, FailuresOptions& failures) {
  failures.preflight = parsed.text("preflight");
  failures.preflight_timeout =
      parsed.seconds("preflight-timeout").value_or(failures.preflight_timeout);
  if (parsed.given("preflight") && trimmed(failures.preflight).empty())
    return usage_error(parsed.spelling("preflight") +
                       ": expected a command, as in --preflight=nvidia-smi");
  if (failures.preflight_timeout.count() == 0)
    return usage_error(parsed.spelling("preflight-timeout") +
                       ": no command ends within 0 s; without --preflight there is no check");
  agent::CommandSettings& commands = failures.commands;
  commands = {parsed.text("on-event"), parsed.text("on-notice")};
  if (parsed.given("on-event") && trimmed(commands.on_event).empty())
    return usage_error(parsed.spelling("on-event") + ": expected a command");
  if (parsed.given("on-notice") && trimmed(commands.on_notice).empty())
    return usage_error(parsed.spelling("on-notice") + ": expected a command");
  return {};
}

LaunchResult<void> take_restarts(const ParsedCommandLine& parsed, proto::RestartSettings& restart) {
  const auto restarts = parsed.integer_up_to("max-restarts", kMaxRestartsMax);
  if (!restarts) return restarts.error();
  restart.max_restarts = *restarts;
  restart.window = parsed.seconds("restart-window").value_or(std::chrono::milliseconds(0));
  const auto delay = parsed.seconds("restart-delay");
  restart.back_off = delay.value_or(rdzv::kAutoBackOff);
  if (!delay) restart.back_off_max = rdzv::kAutoBackOffMax;
  restart.minimum_uptime = parsed.seconds("min-uptime").value_or(std::chrono::milliseconds(0));
  if (const std::string codes = parsed.text("no-restart-on"); codes != "none") {
    restart.no_restart_codes = parse_indexes(codes).value_or(std::vector<int>{});
    for (const int code : restart.no_restart_codes) {
      if (code < 1 || code > kExitCodeMax)
        return usage_error(parsed.spelling("no-restart-on") +
                           ": exit codes of failures are 1 to 255");
    }
  }
  return {};
}

LaunchResult<void> take_report(const ParsedCommandLine& parsed, ReportOptions& report) {
  report.exit_code_rule = choice<ExitCodeRule>(parsed, "exit-code");
  report.file = parsed.text("report");
  if (parsed.given("report") && report.file.empty())
    return usage_error(parsed.spelling("report") + ": expected a file");
  if (report.file == "-") report.file = "/dev/stdout";
  report.event_log = parsed.text("event-log");
  if (parsed.given("event-log") && report.event_log.empty())
    return usage_error(parsed.spelling("event-log") + ": expected a file");
  return {};
}

LaunchResult<void> take_watches(const ParsedCommandLine& parsed, agent::WatchSettings& watch) {
  watch.progress_timeout = parsed.seconds("progress-timeout").value_or(watch.progress_timeout);
  watch.kernel_timeout = parsed.seconds("uninterruptible-timeout").value_or(watch.kernel_timeout);
  watch.log_timeout = parsed.seconds("log-timeout").value_or(watch.log_timeout);
  watch.on_silence = choice<OnSilence>(parsed, "on-silence");
  if (watch.on_silence == OnSilence::restart && watch.log_timeout.count() == 0)
    return usage_error("--on-silence=restart needs --log-timeout=SECONDS");
  return {};
}

LaunchResult<void> take_workers(const ParsedCommandLine& parsed, WorkersOptions& workers) {
  const auto processes = process_count(parsed);
  if (!processes) return processes.error();
  workers.processes = *processes;
  workers.role = parsed.text("role");
  const auto threads = omp_threads(parsed);
  if (!threads) return threads.error();
  workers.omp_threads = *threads;
  if (parsed.given("numa-binding"))
    workers.numa_binding = choice<machine::NumaBinding>(parsed, "numa-binding");
  return {};
}

void take_devices(const ParsedCommandLine& parsed, DevicesOptions& devices) {
  devices.gpus = gpu_selection(parsed);
  devices.virtual_local_rank = parsed.flag("virtual-local-rank");
  devices.gpu_visibility = devices.virtual_local_rank
                               ? GpuVisibility::own
                               : choice<GpuVisibility>(parsed, "gpu-visibility");
}

LaunchResult<void> take_output(const ParsedCommandLine& parsed, const Environment& environment,
                               OutputOptions& output) {
  if (parsed.given("output")) output.mode = choice<OutputMode>(parsed, "output");
  output.standard_input = choice<StdinMode>(parsed, "stdin");
  auto logs = log_options(parsed, environment);
  if (!logs) return logs.error();
  output.logs = std::move(*logs);
  return {};
}

LaunchError missing_program(const std::string& taken) {
  auto error = usage_error("PROGRAM is missing" + (taken.empty() ? "" : " (" + taken + ")"));
  error.more =
      "\n"
      "Usage: ddprun [OPTIONS] PROGRAM [ARGUMENTS...]\n"
      "Try:   ddprun --nproc-per-node=2 train\n"
      "All options: ddprun --help";
  return error;
}

bool is_module_name(std::string_view name) {
  const auto part = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c >= 0x80; };
  bool begins = true;
  for (const char c : name) {
    if (begins ? !part(static_cast<unsigned char>(c)) || (c >= '0' && c <= '9')
               : !part(static_cast<unsigned char>(c)) && c != '.')
      return false;
    begins = c == '.';
  }
  return !begins;
}

/// Names with commas; blanks around them do not count. `none` takes back what stands before it.
LaunchResult<void> take_preload(const ParsedCommandLine& parsed, ProgramOptions& program) {
  if (!parsed.given("preload")) return {};
  program.preload_spelling = parsed.spelling("preload");
  const std::string list = parsed.text("preload");
  if (list == "none") return {};
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string name(trimmed(std::string_view(list).substr(begin, end - begin)));
    if (name.ends_with(".py") || name == "yes" || name == "true" || name == "on")
      return usage_error(program.preload_spelling + ": " + shell_word(name) +
                         " is no module to import; use --preload=auto for what the program imports "
                         "at its top");
    if (!is_module_name(name))
      return usage_error(program.preload_spelling + ": " + shell_word(name) +
                         " is no name of a Python module; use --preload=torch,transformers, or "
                         "--preload=auto for what the program imports at its top");
    program.preload.push_back(name);
    begin = end + 1;
  }
  return {};
}

LaunchResult<void> take_program(const ParsedCommandLine& parsed, LaunchOptions& options) {
  ProgramOptions& program = options.program;
  program.module = parsed.flag("module");
  program.no_python = parsed.flag("no-python");
  program.run_path = parsed.flag("run-path");
  program.local_rank_argument = parsed.flag("use-env")
                                    ? LocalRankArgument::none
                                    : choice<LocalRankArgument>(parsed, "local-rank-argument");
  if (parsed.program->empty()) {
    return usage_error("PROGRAM is an empty text: was a shell variable not set?");
  }
  if (const auto taken = take_preload(parsed, program); !taken) return taken.error();
  if (program.module && program.no_python) {
    return usage_error(
        "--module (-m) and --no-python exclude each other: a module runs under Python; leave one "
        "out");
  }
  if (program.run_path && program.module) {
    return usage_error("--run-path and --module (-m) exclude each other; leave one out");
  }
  if (auto launcher = launcher_as_program(*parsed.program, parsed.arguments, program.module);
      !launcher.empty())
    return usage_error(launcher);
  program.name = *parsed.program;
  program.arguments = parsed.arguments;
  if (program.name == kDoctor && !program.module && !program.run_path) {
    if (!program.arguments.empty())
      return usage_error("doctor takes no arguments (for a program of that name type ./doctor)");
    options.request = Request::doctor;
  }
  return {};
}

}  // namespace

LaunchResult<LaunchOptions> launch_options(const ParsedCommandLine& parsed,
                                           const Environment& environment) {
  LaunchOptions options;
  options.request = request_of(parsed);
  options.texts.topic = parsed.text("help");
  if (parsed.ended_by == RowRef("help") && options.texts.topic.empty())
    options.texts.word_behind = parsed.word_behind_end;
  options.texts.man_format = parsed.text("man");
  options.texts.completion_shell = parsed.text("completion");
  options.warnings = parsed.warnings;
  if (parsed.ended_by) return options;
  if (const auto beside = beside_make_secret(parsed); !beside.empty())
    return usage_error("--make-secret makes the file and starts nothing: leave out " + beside);
  // First of all: another error may be about PROGRAM, taken for an option's value.
  const bool needs_program =
      options.request != Request::explain_policy && options.request != Request::make_secret;
  if (needs_program && !parsed.program) return missing_program(parsed.last_taken);

  if (const auto taken = take_rendezvous(parsed, options); !taken) return taken.error();
  if (const auto taken = take_hosts(parsed, options); !taken) return taken.error();
  if (const auto taken = take_workers(parsed, options.workers); !taken) return taken.error();
  take_devices(parsed, options.devices);
  if (const auto taken = take_output(parsed, environment, options.output); !taken)
    return taken.error();
  if (const auto taken = take_restarts(parsed, options.failures.restart); !taken)
    return taken.error();
  if (const auto taken = take_report(parsed, options.report); !taken) return taken.error();
  if (const auto taken = take_watches(parsed, options.failures.watch); !taken) return taken.error();
  if (const auto taken = take_stopping(parsed, environment, options); !taken) return taken.error();
  if (const auto taken = take_chaos(parsed, options.failures); !taken) return taken.error();
  if (const auto taken = take_commands(parsed, options.failures); !taken) return taken.error();
  options.failures.containment = choice<Containment>(parsed, "contain");
  options.log_level = log_level(parsed, environment);
  const auto idle = options_without_effect(parsed, options);
  options.warnings.insert(options.warnings.end(), idle.begin(), idle.end());

  if (!parsed.program) return options;
  if (const auto program = take_program(parsed, options); !program) return program.error();
  return options;
}

LaunchResult<LaunchOptions> parse_launch_options(const std::vector<std::string>& arguments,
                                                 const Environment& environment) {
  const auto parsed = parse_command_line(option_table(), arguments, environment);
  if (!parsed) return parsed.error();
  return launch_options(*parsed, environment);
}

}  // namespace ddprun::launcher
