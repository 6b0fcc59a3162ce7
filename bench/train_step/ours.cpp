#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "base/unique_handle.hpp"
#include "bench/support/measure.hpp"
#include "bench/train_step/contender.hpp"
#include "bench/train_step/process.hpp"
#include "rendezvous/store/store_server.hpp"
#include "worker/ddprun_progress.h"

namespace ddprun::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 500us;  // how often the progress page is read

/// The page that `train` reports its steps in (docs/progress.md), seen from outside.
class ProgressPage {
 public:
  explicit ProgressPage(std::string path) : path_(std::move(path)) {
    std::filesystem::remove(path_);
  }
  ~ProgressPage() {
    if (page_ != nullptr) munmap(const_cast<ddprun_progress_page*>(page_), sizeof *page_);
  }
  ProgressPage(const ProgressPage&) = delete;
  ProgressPage& operator=(const ProgressPage&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Steps that are done; 0 as long as there is no page.
  [[nodiscard]] std::uint64_t steps() {
    if (page_ == nullptr) open_page();
    return page_ == nullptr ? 0 : page_->step;
  }

 private:
  void open_page() {
    const UniqueFd file(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (file.get() < 0 || fstat(file.get(), &status) != 0 ||
        status.st_size < static_cast<off_t>(sizeof *page_))
      return;
    void* const memory = mmap(nullptr, sizeof *page_, PROT_READ, MAP_SHARED, file.get(), 0);
    if (memory != MAP_FAILED) page_ = static_cast<volatile ddprun_progress_page*>(memory);
  }

  std::string path_;
  volatile ddprun_progress_page* page_ = nullptr;
};

std::uint16_t free_port() {
  const Result<rdzv::StoreListener> listener = rdzv::listen_store("127.0.0.1", 0);
  if (!listener) throw std::runtime_error("no free port on 127.0.0.1");
  return listener->port;
}

std::vector<std::string> command_of(const Race& race, int rank) {
  const Case& one = race.one;
  std::vector<std::string> command{own_folder() + "/train",
                                   "--model=" + one.model,
                                   fmt::format("--batch={}", one.batch),
                                   "--optimizer=" + one.optimizer,
                                   "--precision=" + race.precision,
                                   "--lr=0.0001",
                                   "--schedule=constant",
                                   "--epochs=1000000",
                                   "--lanes=1",
                                   "--comm-timeout=10m",
                                   "--rendezvous-timeout=2m",
                                   "--checkpoint-every=off",
                                   "--resume=never",
                                   fmt::format("--out={}/out-{}", race.folder, rank),
                                   "--quiet"};
  if (one.tokens > 0) {
    command.push_back("--size=" + one.size);
    command.push_back(fmt::format("--max-tokens={}", one.tokens));
    command.push_back(fmt::format("--sentences={}", one.texts()));
  } else {
    command.push_back(one.masks ? "--image-shape=" + one.shape_text() : "--data=" + race.folder);
  }
  return command;
}

/// Ranks of `train`, stopped at the end.
class Ranks {
 public:
  Ranks(const Race& race, const Process::Environment& more)
      : page_(race.folder + "/progress-" + std::to_string(++count_)) {
    const std::uint16_t port = free_port();
    for (int rank = 0; rank < race.ranks; ++rank) {
      Process::Environment environment = rank_environment(rank, race.ranks, port);
      if (rank == 0) environment.emplace_back("DDPRUN_PROGRESS_FILE", page_.path());
      environment.insert(environment.end(), more.begin(), more.end());
      processes_.push_back(std::make_unique<Process>(
          command_of(race, rank), environment, fmt::format("{}/ours-{}.txt", race.folder, rank)));
    }
  }

  void wait_for(int step) {
    while (page_.steps() < static_cast<std::uint64_t>(step)) {
      for (auto& process : processes_)
        if (!process->runs()) process->fail();
      std::this_thread::sleep_for(kLook);
    }
  }
  [[nodiscard]] double steps() { return static_cast<double>(page_.steps()); }
  [[nodiscard]] double cpu_seconds() const {
    return std::accumulate(
        processes_.begin(), processes_.end(), 0.0,
        [](double sum, const auto& process) { return sum + process->cpu_seconds(); });
  }
  [[nodiscard]] const Process& first() const { return *processes_.front(); }

 private:
  static inline int count_ = 0;
  ProgressPage page_;
  std::vector<std::unique_ptr<Process>> processes_;
};

struct Moment {
  double steps, cpu;
  Clock::time_point at;
};
Moment now(Ranks& ranks) { return {ranks.steps(), ranks.cpu_seconds(), Clock::now()}; }

double seconds_between(const Moment& from, const Moment& to) {
  return std::chrono::duration<double>(to.at - from.at).count();
}

/// Milliseconds in the lines that oneDNN prints for each primitive: the last of their fields.
double library_ms(const std::string& lines) {
  double sum = 0;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    const std::string line = lines.substr(begin, end - begin);
    if (line.starts_with("onednn_verbose,") && line.find("exec,") != std::string::npos)
      sum += std::strtod(line.c_str() + line.rfind(',') + 1, nullptr);
    begin = end + 1;
  }
  return sum;
}

}  // namespace

int warm_steps(const Case& one) {
  if (one.steps == 1) return 1;  // for its memory
  return one.steps >= 20 ? 20 : 3;
}

StepFigures run_ours(const Race& race) {
  const int warm = warm_steps(race.one);
  Ranks ranks(race, {});
  ranks.wait_for(warm);
  const Moment begin = now(ranks);
  ranks.wait_for(warm + race.one.steps);
  const Moment end = now(ranks);
  const double steps = end.steps - begin.steps;
  return {.cpu_ms = (end.cpu - begin.cpu) * 1e3 / steps / race.ranks,
          .wall_ms = seconds_between(begin, end) * 1e3 / steps,
          .peak_bytes = ranks.first().peak_bytes()};
}

double library_share(const Race& race) {
  const int warm = warm_steps(race.one);
  Ranks ranks(race, {{"ONEDNN_VERBOSE", "1"}});
  ranks.wait_for(warm);
  const Moment begin = now(ranks);
  const std::size_t from = std::filesystem::file_size(ranks.first().output());
  ranks.wait_for(warm + race.one.steps);
  const Moment end = now(ranks);
  const std::size_t to = std::filesystem::file_size(ranks.first().output());
  const std::string lines = text_of(ranks.first().output()).substr(from, to - from);
  return library_ms(lines) / (seconds_between(begin, end) * 1e3);
}

}  // namespace ddprun::bench
