// How fast ranks of one host sum their gradients: our shared-memory all-reduce against gloo over
// loopback and against one thread's memcpy. All contenders take turns within one run; a sum's time
// is that of its slowest rank; medians.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/allreduce/peer.hpp"
#include "bench/support/measure.hpp"
#include "rendezvous/client/store_client.hpp"
#include "rendezvous/store/store_server.hpp"
#include "trainer/comm/make_communicator.hpp"
#include "trainer/comm/reducer.hpp"

namespace bench = ddprun::bench;
namespace rdzv = ddprun::rdzv;
namespace trainer = ddprun::trainer;
using bench::Clock;
using namespace std::chrono_literals;

namespace {

struct Options {
  int ranks = 2;
  int repeats = 31;
  std::vector<std::size_t> kilobytes = {64, 1024, 4096, 16384, 65536};
  bool json = false;
};

struct Contender {
  std::string name;
  std::function<void(std::size_t floats)> run;
};

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "bench_allreduce: %s\n", why.c_str());
  std::_Exit(1);
}

void must(const trainer::CommResult& result) {
  if (!result.ok()) die(result.detail);
}

double seconds_of(const std::function<void()>& work) {
  const auto began = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - began).count();
}

/// One rank of the group: everything that is timed.
class RankBench {
 public:
  RankBench(const Options& options, int rank, std::uint16_t port, const std::string& directory)
      : options_(options),
        rank_(rank),
        floats_max_(*std::max_element(options.kilobytes.begin(), options.kilobytes.end()) * 1024 /
                    sizeof(float)),
        private_data_(floats_max_),
        copy_(floats_max_) {
    auto client = rdzv::StoreClient::connect("127.0.0.1", port, Clock::now() + 30s);
    if (!client) die("no store: " + client.error().message());
    trainer::StoreExchange exchange(*client);
    trainer::CommOptions comm;
    comm.rank = rank;
    comm.world_size = options.ranks;
    comm.shards = options.ranks;
    comm.arena_floats = floats_max_;
    trainer::CommSetup setup = trainer::make_communicator(comm, &exchange, Clock::now() + 30s);
    must(setup.result);
    communicator_ = std::move(setup.communicator);
    peer_ = bench::make_peer(rank, options.ranks, directory, private_data_);
  }

  void run() {
    std::vector<Contender> contenders = {
        {"ddprun", [this](std::size_t floats) { all_reduce(floats); }}};
    for (const auto& algorithm : peer_) {
      contenders.push_back(
          {algorithm->name(), [&](std::size_t floats) { algorithm->all_reduce(floats); }});
    }
    contenders.push_back({"memcpy", [this](std::size_t floats) {
                            std::memcpy(copy_.data(), private_data_.data(), floats * sizeof(float));
                          }});
    nlohmann::json report = {{"ranks", options_.ranks},
                             {"repeats", options_.repeats},
                             {"peer", bench::peer_description()}};
    const double barrier = median_barrier();
    report["barrier_us"] = barrier * 1e6;
    if (rank_ == 0 && !options_.json) {
      std::printf("%d ranks, %d repeats, peer: %s\nbarrier %.1f us\n\n", options_.ranks,
                  options_.repeats, bench::peer_description().c_str(), barrier * 1e6);
      std::printf("%10s  %-24s %12s %10s %8s\n", "size", "", "median us", "GB/s", "ratio");
    }
    for (const std::size_t kilobytes : options_.kilobytes) {
      report["sizes"].push_back(run_size(contenders, kilobytes));
    }
    if (rank_ == 0 && options_.json) std::printf("%s\n", report.dump(2).c_str());
  }

 private:
  Clock::time_point soon() const { return Clock::now() + 60s; }

  void all_reduce(std::size_t floats) {
    trainer::Ticket last = 0;
    int bucket = 0;
    for (const trainer::Range& range : trainer::bucket_table(floats, {})) {
      last = communicator_->start(bucket++, range);
      communicator_->progress();
    }
    must(communicator_->finish(last, soon()));
  }

  /// The slowest rank's time of every repeat, as every rank knows it.
  std::vector<double> slowest(const std::vector<double>& mine) {
    std::vector<double> all(mine.size() * static_cast<std::size_t>(options_.ranks));
    must(communicator_->all_gather(std::as_bytes(std::span(mine)),
                                   std::as_writable_bytes(std::span(all)), soon()));
    std::vector<double> worst = mine;
    for (std::size_t i = 0; i < all.size(); ++i)
      worst[i % mine.size()] = std::max(worst[i % mine.size()], all[i]);
    return worst;
  }

  double median_barrier() {
    std::vector<double> times;
    for (int i = 0; i < 1000; ++i)
      times.push_back(seconds_of([&] { must(communicator_->barrier(soon())); }));
    return bench::median(slowest(times));
  }

  nlohmann::json run_size(const std::vector<Contender>& contenders, std::size_t kilobytes) {
    const std::size_t floats = kilobytes * 1024 / sizeof(float);
    const int repeats = kilobytes < 1024 ? options_.repeats * 10 : options_.repeats;
    std::vector<std::vector<double>> times(contenders.size());
    for (int repeat = -2; repeat < repeats; ++repeat) {  // two to warm up
      for (std::size_t i = 0; i < contenders.size(); ++i) {
        // Gradients are freshly written by their rank, as backward leaves them.
        std::fill_n(communicator_->arena(0).begin(), floats, 1.0F);
        std::fill_n(private_data_.begin(), floats, 1.0F);
        must(communicator_->barrier(soon()));
        const double time = seconds_of([&] { contenders[i].run(floats); });
        if (repeat >= 0) times[i].push_back(time);
      }
    }
    const auto sum = static_cast<float>(options_.ranks);
    all_reduce_checked(floats, sum);

    std::vector<double> medians;
    for (const auto& one : times) medians.push_back(bench::median(slowest(one)));
    nlohmann::json size = {{"kilobytes", kilobytes}};
    double best_peer = 0;
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      size["median_us"][contenders[i].name] = medians[i] * 1e6;
      const bool is_peer = i > 0 && i + 1 < contenders.size();
      if (is_peer && (best_peer == 0 || medians[i] < best_peer)) best_peer = medians[i];
    }
    if (best_peer > 0) size["ratio_to_best_peer"] = best_peer / medians[0];
    if (rank_ == 0 && !options_.json) print_size(contenders, medians, kilobytes, best_peer);
    return size;
  }

  void print_size(const std::vector<Contender>& contenders, const std::vector<double>& medians,
                  std::size_t kilobytes, double best_peer) const {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      std::printf("%7zu KB  %-24s %12.1f %10.2f %7.1fx\n", kilobytes, contenders[i].name.c_str(),
                  medians[i] * 1e6, static_cast<double>(kilobytes) * 1024 / medians[i] / 1e9,
                  medians[i] / medians[0]);
    }
    if (best_peer > 0)
      std::printf("%7zu KB  best peer / ddprun: %.1fx\n\n", kilobytes, best_peer / medians[0]);
    std::fflush(stdout);
  }

  /// A fast wrong sum would be worth nothing.
  void all_reduce_checked(std::size_t floats, float sum) {
    std::fill_n(communicator_->arena(0).begin(), floats, 1.0F);
    all_reduce(floats);
    for (std::size_t i = 0; i < floats; ++i) {
      if (communicator_->arena(0)[i] != sum) die("a sum is wrong");
    }
    must(communicator_->barrier(soon()));
  }

  const Options& options_;
  int rank_;
  std::size_t floats_max_;
  std::vector<float> private_data_;
  std::vector<float> copy_;
  std::unique_ptr<trainer::Communicator> communicator_;
  std::vector<std::unique_ptr<bench::PeerAlgorithm>> peer_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Times the all-reduce of ranks on one host.");
  app.add_option("--ranks", options.ranks, "How many (default 2)")->check(CLI::Range(2, 64));
  app.add_option("--repeats", options.repeats, "Of every size (default 31)")
      ->check(CLI::Range(1, 100000));
  app.add_option("--kilobytes", options.kilobytes, "Sizes (default 64 1024 4096 16384 65536)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_flag("--json", options.json, "Print one JSON object instead of a table");
  CLI11_PARSE(app, argc, argv);

  char directory[] = "/tmp/bench_allreduce_XXXXXX";  // where gloo's ranks meet
  if (mkdtemp(directory) == nullptr) die("mkdtemp failed");
  auto listener = rdzv::listen_store("127.0.0.1", 0);
  if (!listener) die("no port: " + listener.error().message());
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t pid = fork();
    if (pid < 0) die("fork failed");
    if (pid == 0) {
      RankBench(options, rank, listener->port, directory).run();
      std::fflush(stdout);
      std::_Exit(0);
    }
    ranks.push_back(pid);
  }
  int worst = 0;
  {
    const auto server = rdzv::StoreServer::start(std::move(*listener)).value();
    for (const pid_t pid : ranks) {
      int status = 0;
      waitpid(pid, &status, 0);
      if (status != 0) worst = 1;
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  return worst;
}
