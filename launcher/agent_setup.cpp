#include "launcher/agent_setup.hpp"

namespace ddprun::launcher {
namespace {

agent::StreamMode stream_mode(StreamTransport transport) {
  switch (transport) {
    case StreamTransport::inherit:
      return agent::StreamMode::inherit;
    case StreamTransport::pty:
      return agent::StreamMode::pty;
    case StreamTransport::pipe:
      return agent::StreamMode::pipe;
    case StreamTransport::file:
      return agent::StreamMode::file;
    case StreamTransport::null:
      return agent::StreamMode::null;
  }
  return agent::StreamMode::inherit;
}

agent::StreamSettings stream_settings(const StreamPlan& plan) {
  return {stream_mode(plan.transport), plan.to_console, plan.to_file};
}

agent::StdinMode stdin_mode(StdinMode mode) {
  switch (mode) {
    case StdinMode::rank0:
      return agent::StdinMode::rank0;
    case StdinMode::all:
      return agent::StdinMode::all;
    case StdinMode::none:
      return agent::StdinMode::none;
  }
  return agent::StdinMode::rank0;
}

spdlog::level::level_enum log_level(LogLevel level) {
  switch (level) {
    case LogLevel::trace:
      return spdlog::level::trace;
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      return spdlog::level::off;
  }
  return spdlog::level::warn;
}

}  // namespace

rdzv::RestartSettings restart_settings(const LaunchOptions& options) {
  rdzv::RestartSettings settings;
  settings.max_restarts = options.max_restarts;
  settings.window = options.restart_window;
  settings.back_off = options.restart_delay.value_or(rdzv::kAutoBackOff);
  if (!options.restart_delay) settings.back_off_max = rdzv::kAutoBackOffMax;
  settings.minimum_uptime = options.minimum_uptime;
  settings.no_restart_codes = options.no_restart_codes;
  return settings;
}

agent::AgentConfig agent_config(const LaunchPlan& plan, const std::string& node_name) {
  agent::AgentConfig config;
  config.run_id = plan.run_id;
  config.role = plan.role;
  config.node_name = node_name;
  config.file = plan.program.file;
  for (const WorkerPlan& worker : plan.workers) {
    agent::WorkerSettings settings;
    settings.argv = plan.program.argv;
    for (std::size_t i = 1; i < settings.argv.size(); ++i) {
      settings.argv[i] = substitute_local_rank(settings.argv[i], worker.local_rank);
    }
    settings.cuda_visible_devices = worker.cuda_visible_devices;
    settings.omp_threads = worker.omp_threads;
    settings.cpus = worker.cpus;
    settings.standard_output = stream_settings(worker.standard_output);
    settings.standard_error = stream_settings(worker.standard_error);
    config.workers.push_back(std::move(settings));
  }
  config.restart = restart_settings(plan.options);
  config.grace_period = plan.grace_period;
  config.kill_timeout = plan.options.kill_timeout;
  config.file_timers = plan.file_timers;
  config.timer_file = plan.timer_file;
  config.keep_error_files = !plan.error_file.empty();
  config.containment = plan.containment;
  config.progress_timeout = plan.options.progress_timeout;
  config.log_timeout = plan.options.log_timeout;
  config.restart_on_silence = plan.options.on_silence == OnSilence::restart;
  config.store_host = plan.store_host;
  config.master_addr = plan.master_addr;
  config.master_port = plan.master_port;
  config.agent_store = plan.options.worker_store == WorkerStore::agent;
  config.store_any_uid = plan.options.store_users.any;
  config.store_uids.assign(plan.options.store_users.uids.begin(),
                           plan.options.store_users.uids.end());
  config.standard_input = stdin_mode(plan.standard_input);
  config.prefix_template = plan.logs.prefix_template;
  config.colour_stdout = plan.logs.colour_stdout;
  config.colour_stderr = plan.logs.colour_stderr;
  config.shown_ranks = plan.options.logs.shown_ranks;
  config.log_policy = plan.options.logs.policy;
  config.bar_interval = plan.options.logs.bar_interval;
  config.rotation = plan.options.logs.rotation;
  config.stdout_filters = plan.options.logs.stdout_filters;
  config.stderr_filters = plan.options.logs.stderr_filters;
  config.stop_signals = plan.options.stop_signals;
  config.forward_signals = plan.options.forward_signals;
  config.virtual_local_rank = plan.options.virtual_local_rank;
  config.set_python_unbuffered = plan.set_python_unbuffered;
  config.log_level = log_level(plan.options.log_level);
  return config;
}

}  // namespace ddprun::launcher
