// What the support of GPUs adds to the start of train on a machine without one: one short step with
// --device=auto against --device=cpu, and against train without the plugin beside it. Interleaved
// rounds; medians and differences to the first.
#include <filesystem>
#include <string>
#include <vector>

#include "bench/support/measure.hpp"

namespace bench = ddprun::bench;
namespace fs = std::filesystem;

namespace {

/// train alone in a folder of its own, which is removed again.
class TrainAlone {
 public:
  explicit TrainAlone(const std::string& train) {
    std::string pattern = (fs::temp_directory_path() / "bench_train_start_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) return;
    folder_ = pattern;
    fs::copy_file(train, path());
  }
  ~TrainAlone() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }
  TrainAlone(const TrainAlone&) = delete;
  TrainAlone& operator=(const TrainAlone&) = delete;
  [[nodiscard]] std::string path() const { return (folder_ / "train").string(); }

 private:
  fs::path folder_;
};

struct Contender {
  std::string name;
  std::vector<std::string> command;
  std::vector<double> ms;
};

std::vector<std::string> one_step(const std::string& train, const std::string& device) {
  return {train,
          "--device=" + device,
          "--model=textclf",
          "--sentences=16",
          "--max-tokens=16",
          "--batch=1",
          "--shards=1",
          "--max-steps=1",
          "--lanes=1",
          "--threads-per-shard=1",
          "--checkpoint-every=off",
          "--quiet"};
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 200;
  if (rounds < 1) {
    std::fprintf(stderr, "usage: bench_train_start [ROUNDS=200]\n");
    return 2;
  }
  const std::string train = bench::own_folder() + "/train";
  const TrainAlone alone(train);
  std::vector<Contender> contenders{{"cpu, no plugin", one_step(alone.path(), "cpu"), {}},
                                    {"cpu", one_step(train, "cpu"), {}},
                                    {"auto, no plugin", one_step(alone.path(), "auto"), {}},
                                    {"auto", one_step(train, "auto"), {}}};
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
      // Another one begins each round: what ran before is not always the same.
      Contender& contender =
          contenders[(static_cast<std::size_t>(round) + turn) % contenders.size()];
      const double ms = bench::run_ms(contender.command);
      if (ms < 0) {
        std::fprintf(stderr, "bench_train_start: %s did not end with exit code 0\n",
                     contender.name.c_str());
        return 1;
      }
      contender.ms.push_back(ms);
    }
  }
  const double first = bench::median(contenders.front().ms);
  std::printf("train --max-steps=1, medians of %d interleaved rounds\n", rounds);
  std::printf("%-16s %10s %10s %10s\n", "--device", "median ms", "p10 ms", "more ms");
  for (const Contender& contender : contenders)
    std::printf("%-16s %10.2f %10.2f %10.2f\n", contender.name.c_str(), bench::median(contender.ms),
                bench::quantile(contender.ms, 0.1), bench::median(contender.ms) - first);
}
