// The rendezvous service with thousands of agents of one job, each a connection: how long rounds
// take, what an idle job costs, and what a journal adds. This file is the command line and what is
// printed.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "bench/service/idle_floor.hpp"
#include "bench/service/life.hpp"
#include "bench/store/report.hpp"
#include "bench/support/machine.hpp"
#include "bench/support/measure.hpp"
#include "rendezvous/etcd/etcd_url.hpp"
#include "rendezvous/tls/tls.hpp"

namespace bench = ddprun::bench;

namespace {

constexpr const char* kFooter = R"(
One thread plays all agents: each has a connection of its own and sends what a ddprun agent sends, at
once and without workers. rdzvd is started afresh for each life of the job, which is:

  form      first connect to the last agent's round; --nnodes=N:N
  idle      every agent sends its keep-alives, a fifth of the lease (15 s) apart
  re-form   a worker of one agent fails: all are told to stop, say that they have, and join; to the
            last agent's new round
  end       all workers are done: all are told the outcome and say goodbye; to the last connection's
            end

The crowd is the reference: as many clients of the store in the same rdzvd, as bench_store plays it.
Medians of rounds in which the crowd, a life without a journal and one with it take turns; with --tls
lives without a secret, with one, and with one and TLS. With --etcd there is a third kind with
its journal in that etcd; every transaction that changes it counts as a change.

memory_each is the growth of rdzvd's private memory (Private_Dirty of /proc/PID/smaps_rollup) from
its start to the formed round, over the agents: what the allocator keeps after the burst is in it,
the kernel's sockets are not. wall_ms includes the generator's own time; cpu_ms is rdzvd's, in all
its threads. With two or more CPUs rdzvd is pinned to the first and the generator to the others.
Where other work runs, start it under chrt -f 50.

Examples:
  bench_service --quick
  chrt -f 50 bench_service                      10,000 agents, five rounds: two minutes
  bench_service --agents 5000 --state-in /dev/shm --json
  bench_service --etcd 127.0.0.1:2379           an etcd that nobody else uses
)";

struct Lives {
  bench::LifeKind kind;
  std::vector<bench::Life> all;

  template <class Part>
  [[nodiscard]] double median(Part part) const {
    std::vector<double> values;
    for (const bench::Life& life : all) values.push_back(part(life));
    return bench::median(std::move(values));
  }
};

void write_costs(bench::Report& report, const std::string& service, const std::string& part,
                 const std::vector<bench::Cost>& costs, double agents, double crowd_seconds) {
  std::vector<double> seconds, cpu_seconds;
  for (const bench::Cost& cost : costs) {
    seconds.push_back(cost.seconds);
    cpu_seconds.push_back(cost.cpu_seconds);
  }
  report.row({{"rdzvd", service},
              {"part", part},
              {"wall_ms", bench::median(seconds) * 1e3},
              {"wall_max_ms", bench::quantile(seconds, 1) * 1e3},
              {"cpu_ms", bench::median(cpu_seconds) * 1e3},
              {"cpu_us_each", bench::median(cpu_seconds) * 1e6 / agents},
              {"x_crowd_wall", bench::median(seconds) / crowd_seconds}});
}

void write(bench::Report& report, const std::vector<bench::Cost>& crowds,
           const std::vector<Lives>& lives, const std::vector<double>& floors, double agents) {
  std::vector<double> crowd_seconds;
  for (const bench::Cost& cost : crowds) crowd_seconds.push_back(cost.seconds);
  const double crowd = bench::median(crowd_seconds);
  report.begin("rounds", fmt::format("{} agents of one job, medians of {}", agents, crowds.size()));
  write_costs(report, "store", "crowd", crowds, agents, crowd);
  for (const Lives& one : lives) {
    const auto part = [&](const char* name, bench::Cost bench::Life::*cost) {
      std::vector<bench::Cost> costs;
      for (const bench::Life& life : one.all) costs.push_back(life.*cost);
      write_costs(report, one.kind.name, name, costs, agents, crowd);
    };
    part("form", &bench::Life::form);
    part("re-form", &bench::Life::form_again);
    part("end", &bench::Life::end);
  }

  report.begin("idle",
               "a formed round; its agents send keep-alives. The floor reads and answers as much");
  const double rate = lives.front().median([](const auto& l) { return l.keep_alives_per_second; });
  for (const Lives& one : lives) {
    report.row(
        {{"rdzvd", one.kind.name},
         {"keep_alives_s", one.median([](const auto& l) { return l.keep_alives_per_second; })},
         {"core_percent", one.median([](const auto& l) { return l.idle_cpu * 100; })},
         {"us_each",
          one.median([](const auto& l) { return l.idle_cpu / l.keep_alives_per_second * 1e6; })},
         {"x_floor", one.median([](const auto& l) { return l.idle_cpu; }) / bench::median(floors)},
         {"memory_each", one.median([&](const auto& l) { return l.memory_bytes / agents; })}});
  }
  report.row({{"rdzvd", "floor"},
              {"keep_alives_s", rate},
              {"core_percent", bench::median(floors) * 100},
              {"us_each", bench::median(floors) / rate * 1e6},
              {"x_floor", 1.0}});

  report.begin("journal", "bytes for each node; rdzvd's start to its first line");
  for (const Lives& one : lives) {
    if (one.all.front().first_round_bytes == 0) continue;
    report.row(
        {{"first_round", one.median([&](const auto& l) { return l.first_round_bytes / agents; })},
         {"next_round", one.median([&](const auto& l) { return l.next_round_bytes / agents; })},
         {"start_ms", one.median([](const auto& l) { return l.start_seconds * 1e3; })},
         {"replay_ms", one.median([](const auto& l) { return l.replay_seconds * 1e3; })}});
  }
}

void write_etcd(bench::Report& report, const Lives& lives) {
  report.begin("etcd", "changes of etcd, each a transaction");
  report.row({{"form", lives.median([](const auto& l) { return l.form_changes; })},
              {"idle", lives.median([](const auto& l) { return l.idle_changes; })},
              {"re-form", lives.median([](const auto& l) { return l.form_again_changes; })}});
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The rendezvous service with thousands of agents of one job.");
  app.footer(kFooter);
  bench::LifeSettings settings;
  settings.folder = std::filesystem::temp_directory_path();
  int rounds = 5;
  double idle_seconds = 6;
  bool quick = false;
  bool json = false;
  bool tls = false;
  std::string etcd;
  auto* agents = app.add_option("--agents", settings.agents, "nodes of the job")
                     ->check(CLI::Range(2, 100'000))
                     ->capture_default_str();
  app.add_option("--rounds", rounds, "lives of each kind")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  auto* idle = app.add_option("--idle-seconds", idle_seconds, "length of the idle time")
                   ->check(CLI::Range(0.1, 3600.0))
                   ->capture_default_str();
  app.add_option("--state-in", settings.folder, "where state folders are made and removed")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  auto* no_journal =
      app.add_flag("--tls", tls, "in place of the journal: a secret, and a secret with TLS");
  app.add_option("--etcd", etcd, "also a life with its journal in this etcd (HOST:PORT, ...)")
      ->excludes(no_journal);
  app.add_flag("--quick", quick, "1,000 agents and one idle second: under half a minute");
  app.add_flag("--json", json, "one JSON object per line");
  CLI11_PARSE(app, argc, argv);
  if (quick && agents->count() == 0) settings.agents = 1'000;
  if (quick && idle->count() == 0) idle_seconds = 1;
  settings.idle = std::chrono::milliseconds(static_cast<std::int64_t>(idle_seconds * 1e3));

  constexpr std::uint32_t kOwnFiles = 100;
  if (const std::uint32_t most = bench::raise_open_files(); settings.agents + kOwnFiles > most) {
    std::fprintf(stderr,
                 "bench_service: %u agents do not fit: a process may open %u files here (ulimit "
                 "-Hn); use --agents=%u\n",
                 settings.agents, most, most - kOwnFiles);
    return 1;
  }
  settings.server_cpu = bench::share_out_cpus(false).server;
  try {
    std::vector<bench::Cost> crowds;
    std::vector<Lives> lives{{{"memory"}, {}}, {{"journal", true}, {}}};
    if (tls) {
      const auto opened = ddprun::rdzv::open_tls();
      if (!opened) throw std::runtime_error(opened.error());
      lives = {
          {{"memory"}, {}}, {{"secret", false, true}, {}}, {{"tls", false, true, *opened}, {}}};
    }
    if (!etcd.empty()) {
      const auto place = ddprun::rdzv::parse_etcd_place("etcd://" + etcd);
      if (!place) throw std::runtime_error("--etcd: " + place.error());
      lives.push_back({{"etcd", false, false, nullptr, place->members}, {}});
    }
    std::vector<double> floors;
    for (int round = 0; round < rounds; ++round) {
      crowds.push_back(bench::crowd(settings));
      for (Lives& one : lives) one.all.push_back(bench::live(settings, one.kind));
      floors.push_back(
          bench::idle_floor(settings, lives.front().all.back().keep_alives_per_second));
    }
    bench::Report report(json);
    write(report, crowds, lives, floors, settings.agents);
    if (!etcd.empty()) write_etcd(report, lives.back());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_service: %s\n", error.what());
    return 1;
  }
}
