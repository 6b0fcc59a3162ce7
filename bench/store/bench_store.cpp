// The store under load: ours against a raw epoll floor, PyTorch's TCPStore and Redis, in one run on
// one machine. This file is the command line; each scenario has a file of its own.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include <fmt/format.h>

#include "bench/store/scenarios.hpp"
#include "bench/support/machine.hpp"

namespace bench = ddprun::bench;

namespace {

struct Scenario {
  const char* name;
  void (*run)(const bench::Settings&, bench::Report&);
};

constexpr Scenario kScenarios[] = {
    {"rates", bench::run_rates},         {"pipelines", bench::run_pipelines},
    {"storms", bench::run_storms},       {"crowds", bench::run_crowds},
    {"wake-ups", bench::run_wake_ups},   {"memory", bench::run_memory},
    {"idle-cost", bench::run_idle_cost}, {"look-ups", bench::run_look_ups}};

constexpr const char* kFooter = R"(
Scenarios (--scenario, several or none for all):
  rates      requests/s, p50/p99/p99.9 and server CPU per request, closed loop
  pipelines  several requests in one segment; segments that the replies take
  storms     N ranks that start at once, as gloo and NCCL process groups do
  crowds     N clients: connect, validate, SET, WAIT for a key set last, GET
  wake-ups   one SET releases N waiters
  memory     of idle connections; growth over 100 rounds of 1,000 that come and go
  idle-cost  server CPU of a GET beside idle connections, to the limit of open files
  look-ups   3,000 clients from nine addresses under a resolver that never answers (root)

Servers (--server): ours (StoreServer), floor (a raw one-thread epoll loop that moves as many
bytes), rdzvd, libuv and legacy (PyTorch's, where a Python with torch is named), redis, and
NAME=COMMAND for any other store of this protocol that prints a first line ending with its port.

Examples:
  bench_store --quick
  chrt -f 50 bench_store --same-cpu --python /opt/venv/bin/python      everything, twenty minutes
  bench_store --scenario rates --server ours --server floor --request get --connections 50
  bench_store --scenario storms --ranks 512 --json
  bench_store --server ours --server "before=/tmp/before/bin/bench_store --serve=ours"

Figures move with the machine: compare servers within one run, by CPU per request. With two or more
CPUs the server is pinned to the first and the generator to the others. For the steadiest CPU per
request use --same-cpu under chrt -f: the two never run at once, the server finds one request of
every client in its sockets each time it runs, and nothing but the server moves the figure. The limit of open files is
raised as far as the hard one (ulimit -Hn) allows; what needs more is left out with a line.
)";

/// The generator gets the CPUs that the server does not have, or with `same` the server's too.
void share_out_cpus(bench::Settings& settings, bool same) {
  const bench::CpuShare cpus = bench::share_out_cpus(same);
  settings.server_cpu = cpus.server;
  settings.spin = !same && cpus.count > 1;
  if (settings.threads == 0)
    settings.threads = same ? 1 : static_cast<unsigned>(std::clamp(cpus.count - 1, 1, 4));
}

std::string default_python() {
  const char* named = std::getenv("DDPRUN_BENCH_PYTHON");
  return named != nullptr ? named : "python3";
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The store under load: ours against a floor, PyTorch's TCPStore and Redis.");
  app.footer(kFooter);
  std::vector<std::string> scenarios, names, requests;
  std::string python = default_python();
  std::string serve;
  bool quick = false;
  bool json = false;
  bool same_cpu = false;
  bench::Settings settings;
  settings.threads = 0;
  int milliseconds = 0;
  int rounds = 0;
  app.add_option("--scenario", scenarios, "run only these");
  app.add_option("--server", names, "only these servers");
  app.add_option("--request", requests, "rates: set, get, add, compare_set, check, wait");
  app.add_option("--connections", settings.connections, "rates: numbers of connections");
  app.add_option("--ranks", settings.ranks, "storms: numbers of ranks");
  app.add_option("--gloo-ranks-max", settings.gloo_ranks_max,
                 "storms: all-to-all patterns up to this many ranks")
      ->capture_default_str();
  app.add_option("--clients", settings.crowds, "crowds and wake-ups: numbers of clients");
  app.add_option("--measure-ms", milliseconds, "length of one measurement of a rate");
  app.add_option("--rounds", rounds, "turns that each server takes");
  app.add_option("--threads", settings.threads, "threads of the generator (0: CPUs - 1, up to 4)");
  app.add_option("--python", python, "an interpreter with torch (or DDPRUN_BENCH_PYTHON)")
      ->capture_default_str();
  app.add_flag("--same-cpu", same_cpu, "generator and server take turns on one CPU");
  app.add_flag("--quick", quick, "fewer, smaller, shorter: under a minute");
  app.add_flag("--json", json, "one JSON object per line");
  app.add_option("--serve", serve, "be one of the servers (ours, floor)")->group("");
  CLI11_PARSE(app, argc, argv);
  if (!serve.empty()) {
    bench::raise_open_files();
    return bench::serve(serve);
  }

  const auto or_else = [](auto& list, auto instead) {
    if (list.empty()) list = std::move(instead);
  };
  if (quick) {
    or_else(scenarios,
            std::vector<std::string>{"rates", "pipelines", "storms", "crowds", "wake-ups"});
    or_else(names, std::vector<std::string>{"ours", "floor", "redis"});
    or_else(requests, std::vector<std::string>{"set", "get", "add"});
    or_else(settings.connections, std::vector<std::uint32_t>{50, 1000});
    or_else(settings.ranks, std::vector<std::uint32_t>{64});
    or_else(settings.crowds, std::vector<std::uint32_t>{1000});
  }
  or_else(names, std::vector<std::string>{"ours", "floor", "libuv", "legacy", "redis"});
  or_else(requests, std::vector<std::string>{"set", "get", "add", "compare_set", "check", "wait"});
  or_else(settings.connections, std::vector<std::uint32_t>{1, 50, 1000, 10'000});
  or_else(settings.ranks, std::vector<std::uint32_t>{8, 64, 512, 1024, 4096});
  or_else(settings.crowds, std::vector<std::uint32_t>{1000, 5000, 10'000, 19'000, 50'000});
  settings.measure = std::chrono::milliseconds(milliseconds > 0 ? milliseconds : quick ? 20 : 50);
  settings.rounds = rounds > 0 ? rounds : quick ? 5 : 9;

  settings.open_files_max = bench::raise_open_files();
  try {
    for (const std::string& request : requests) settings.ops.push_back(bench::op_of(request));
    settings.servers = bench::find_servers(names, python);
    for (const std::string& wanted : scenarios) {
      if (std::none_of(std::begin(kScenarios), std::end(kScenarios),
                       [&](const Scenario& scenario) { return scenario.name == wanted; }))
        throw std::runtime_error(fmt::format("no scenario is called {} (see --help)", wanted));
    }
    share_out_cpus(settings, same_cpu);
    bench::Report report(json);
    for (const Scenario& scenario : kScenarios) {
      if (!scenarios.empty() &&
          std::find(scenarios.begin(), scenarios.end(), scenario.name) == scenarios.end())
        continue;
      scenario.run(settings, report);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_store: %s\n", error.what());
    return 1;
  }
}
