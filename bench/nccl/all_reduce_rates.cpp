#include "bench/nccl/all_reduce_rates.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "trainer/error.hpp"
#include "trainer/run/cli/environment.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/plan/rendezvous.hpp"

namespace ddprun::bench {
namespace {

using namespace trainer;
using namespace std::chrono_literals;

struct Settings {
  std::uint64_t least_bytes = 8;
  std::uint64_t most_bytes = std::uint64_t{1} << 30;
  unsigned factor = 2;
  int iterations = 20;
  int warm_up = 5;
  bool share_gpu = false;
  bool no_deterministic = false;
  int timeout_seconds = 60;

  [[nodiscard]] std::chrono::seconds timeout() const {
    return std::chrono::seconds(timeout_seconds);
  }
};

/// So many at most are in the host's memory at one time.
constexpr std::size_t kPieceFloats = std::size_t{1} << 20;

void require(const CommResult& result) {
  if (!result.ok()) throw std::runtime_error(result.detail);
}

class Bench {
 public:
  Bench(const Settings& settings, const WorkerEnvironment& environment, const ChosenDevice& chosen)
      : settings_(settings),
        ranks_(environment.world_size),
        rank_(environment.rank),
        chosen_(chosen) {
    Rendezvous rendezvous(environment, settings.timeout());
    CommSetup setup =
        make_device_communicator(chosen,
                                 {.rank = rank_,
                                  .world_size = ranks_,
                                  .shards = ranks_,
                                  .order = SumOrder::chain,
                                  .arena_floats = most_floats(),
                                  .group = rendezvous.group()},
                                 settings.timeout(), rendezvous.exchange(), rendezvous.deadline());
    if (setup.refused) throw DataError(setup.result.detail);
    require(setup.result);
    communicator_ = std::move(setup.communicator);
    how_ = std::move(setup.how);
    require(communicator_->barrier(soon()));  // nobody needs the store any more
  }

  /// How many values were wrong, on all ranks.
  std::uint64_t run() {
    print_title();
    std::uint64_t wrong = 0;
    for (std::uint64_t bytes = settings_.least_bytes; bytes <= settings_.most_bytes;
         bytes *= settings_.factor)
      wrong += run_size(static_cast<std::size_t>(bytes / sizeof(float)));
    return wrong;
  }

 private:
  /// What one rank tells the others of a size.
  struct Found {
    double seconds = 0;
    std::uint64_t wrong = 0;
  };

  [[nodiscard]] std::size_t most_floats() const {
    return static_cast<std::size_t>(settings_.most_bytes / sizeof(float));
  }
  [[nodiscard]] Clock::time_point soon() const { return Clock::now() + settings_.timeout(); }

  std::uint64_t run_size(std::size_t floats) {
    Found mine{.seconds = 0, .wrong = count_wrong(floats)};
    // Sums of zeros stay zeros, however often they are summed.
    chosen_.device->clear(std::as_writable_bytes(communicator_->arena(0).first(floats)));
    all_reduce(floats, settings_.warm_up);
    chosen_.gpu->synchronize(cuda::Stream::compute);
    require(communicator_->barrier(soon()));
    const auto began = Clock::now();
    all_reduce(floats, settings_.iterations);
    chosen_.gpu->synchronize(cuda::Stream::compute);
    const std::chrono::duration<double> took = Clock::now() - began;
    mine.seconds = took.count() / settings_.iterations;
    std::vector<Found> all(static_cast<std::size_t>(ranks_));
    require(communicator_->all_gather(std::as_bytes(std::span(&mine, 1)),
                                      std::as_writable_bytes(std::span(all)), soon()));
    Found sum;
    for (const Found& one : all) {
      sum.seconds += one.seconds;
      sum.wrong += one.wrong;
    }
    print_row(floats, sum.seconds / ranks_, sum.wrong);
    return sum.wrong;
  }

  void all_reduce(std::size_t floats, int times) {
    for (int i = 0; i < times; ++i)
      require(communicator_->finish(communicator_->start(0, {0, floats}), soon()));
  }

  /// Counts the wrong floats on this rank of one sum in which each rank gives its number, from 1.
  std::uint64_t count_wrong(std::size_t floats) {
    Device& device = *chosen_.device;
    const std::span<float> arena = communicator_->arena(0).first(floats);
    std::vector<float> piece(std::min(floats, kPieceFloats), static_cast<float>(rank_ + 1));
    const auto for_pieces = [&](auto work) {
      for (std::size_t at = 0; at < floats; at += piece.size())
        work(arena.subspan(at, std::min(piece.size(), floats - at)));
    };
    for_pieces([&](std::span<float> there) {
      device.copy_in(std::as_bytes(std::span(piece).first(there.size())), there.data());
    });
    all_reduce(floats, 1);
    require(communicator_->barrier(soon()));
    const auto expected = static_cast<float>(ranks_ * (ranks_ + 1) / 2);
    std::uint64_t wrong = 0;
    for_pieces([&](std::span<float> there) {
      const auto here = std::span(piece).first(there.size());
      device.copy_out(there.data(), std::as_writable_bytes(here));
      wrong += static_cast<std::uint64_t>(
          std::count_if(here.begin(), here.end(), [&](float value) { return value != expected; }));
    });
    return wrong;
  }

  void print_title() const {
    if (rank_ != 0) return;
    std::printf("# %s, %d ranks of %s%s; mean of %d sums after %d, of all ranks; in place\n",
                how_.c_str(), ranks_, chosen_.name.c_str(),
                chosen_.shares_gpus ? ", which may share GPUs: no figures to compare" : "",
                settings_.iterations, settings_.warm_up);
    std::printf("#%12s %12s %8s %6s %10s %8s %8s %7s\n", "size", "count", "type", "redop", "time",
                "algbw", "busbw", "#wrong");
    std::printf("#%12s %12s %8s %6s %10s %8s %8s\n", "(B)", "(elements)", "", "", "(us)", "(GB/s)",
                "(GB/s)");
    std::fflush(stdout);
  }

  void print_row(std::size_t floats, double seconds, std::uint64_t wrong) const {
    if (rank_ != 0) return;
    const auto bytes = static_cast<double>(floats * sizeof(float));
    const double algorithm = bytes / seconds / 1e9;
    // What the slowest link carries of it, in each direction.
    const double bus = algorithm * 2 * (ranks_ - 1) / ranks_;
    std::printf(" %12zu %12zu %8s %6s %10.2f %8.2f %8.2f %7llu\n", floats * sizeof(float), floats,
                "float", "sum", seconds * 1e6, algorithm, bus,
                static_cast<unsigned long long>(wrong));
    std::fflush(stdout);
  }

  const Settings& settings_;
  int ranks_;
  int rank_;
  const ChosenDevice& chosen_;
  std::unique_ptr<Communicator> communicator_;
  std::string how_;  // CommSetup::how
};

int run_worker(const Settings& settings, GpuSource& gpus) {
  if (settings.least_bytes > settings.most_bytes)
    throw DataError(fmt::format("--min-bytes={} is more than --max-bytes={}", settings.least_bytes,
                                settings.most_bytes));
  const WorkerEnvironment environment =
      read_environment([](const char* name) { return std::getenv(name); });
  if (environment.world_size < 2)
    throw DataError(
        "one worker has nobody to sum with: start two or more, by `ddprun --nproc-per-node=gpu "
        "bench_nccl`");
  Options options;
  options.device.kind = DeviceKind::cuda;
  options.device.share_gpu = settings.share_gpu;
  options.device.no_deterministic = settings.no_deterministic;
  const ChosenDevice chosen = choose_device(options, environment, gpus);
  const std::uint64_t wrong = Bench(settings, environment, chosen).run();
  if (wrong > 0) throw std::runtime_error(fmt::format("{} values were wrong", wrong));
  return 0;
}

}  // namespace

int bench_nccl_main(int argc, char** argv, GpuSource& gpus) {
  CLI::App app(
      "All-reduce of a job's GPUs by NCCL, as `train` calls it. Start it by `ddprun "
      "--nproc-per-node=gpu bench_nccl`.");
  app.footer(
      "The columns are those of nccl-tests: algbw is size / time, busbw that times 2 (n - 1) / n. "
      "#wrong counts the values of one sum, on all ranks, that are not what they must be.");
  Settings settings;
  const auto size = CLI::AsSizeValue(false);
  const auto whole_floats = CLI::Range(std::uint64_t{sizeof(float)}, std::uint64_t{1} << 36);
  app.add_option("-b,--min-bytes", settings.least_bytes, "the smallest size, such as 8 or 64K")
      ->transform(size)
      ->check(whole_floats);
  app.add_option("-e,--max-bytes", settings.most_bytes, "the largest size (1G)")
      ->transform(size)
      ->check(whole_floats);
  app.add_option("-f,--factor", settings.factor, "from one size to the next")
      ->check(CLI::Range(2U, 1024U))
      ->capture_default_str();
  app.add_option("-n,--iterations", settings.iterations, "sums that are measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("-w,--warm-up", settings.warm_up, "sums before them")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("--timeout", settings.timeout_seconds, "seconds for the start, and for a size")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_flag("--share-gpu", settings.share_gpu, "several workers on one GPU: for tests");
  app.add_flag("--no-deterministic", settings.no_deterministic,
               "NVLink switches may add, too, as in `train --no-deterministic`");
  try {
    app.parse(argc, argv);
    return run_worker(settings, gpus);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitSuccess : kExitUsage;
  } catch (const DataError& error) {
    std::fprintf(stderr, "bench_nccl: %s\n", error.what());
    return kExitUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_nccl: error: %s\n", error.what());
    return kExitFailure;
  }
}

}  // namespace ddprun::bench
