#include "bench/train_step/ranks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "base/unique_handle.hpp"
#include "bench/support/measure.hpp"
#include "rendezvous/store/store_server.hpp"
#include "worker/ddprun_progress.h"

namespace ddprun::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 500us;  // how often the progress page is read

}  // namespace

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

namespace {

std::uint16_t free_port() {
  const Result<rdzv::StoreListener> listener = rdzv::listen_store("127.0.0.1", 0);
  if (!listener) throw std::runtime_error("no free port on 127.0.0.1");
  return listener->port;
}

std::string next_page(const std::string& folder) {
  static int count = 0;
  return fmt::format("{}/progress-{}", folder, ++count);
}

}  // namespace

Ranks::Ranks(const Settings& settings)
    : page_(std::make_unique<ProgressPage>(next_page(settings.folder))) {
  const std::uint16_t port = free_port();
  for (int rank = 0; rank < settings.count; ++rank) {
    Process::Environment environment = rank_environment(rank, settings.count, port);
    if (rank == 0) environment.emplace_back("DDPRUN_PROGRESS_FILE", page_->path());
    environment.insert(environment.end(), settings.environment.begin(), settings.environment.end());
    std::vector<std::string> command = settings.command;
    command.push_back(fmt::format("--out={}/out-{}", settings.folder, rank));
    processes_.push_back(std::make_unique<Process>(
        command, environment, fmt::format("{}/ours-{}.txt", settings.folder, rank)));
  }
}

Ranks::~Ranks() = default;

void Ranks::wait_for(int step) {
  while (page_->steps() < static_cast<std::uint64_t>(step)) {
    for (auto& process : processes_)
      if (!process->runs()) process->fail();
    std::this_thread::sleep_for(kLook);
  }
}

double Ranks::cpu_seconds() const {
  return std::accumulate(
      processes_.begin(), processes_.end(), 0.0,
      [](double sum, const auto& process) { return sum + process->cpu_seconds(); });
}

StepFigures Ranks::measure(int first, int last) {
  struct Moment {
    double steps, cpu;
    Clock::time_point at;
  };
  const auto moment = [&](int step) -> Moment {
    wait_for(step);
    return {static_cast<double>(page_->steps()), cpu_seconds(), Clock::now()};
  };
  const Moment begin = moment(first);
  const Moment end = moment(last);
  const double steps = end.steps - begin.steps;
  const double ms = std::chrono::duration<double, std::milli>(end.at - begin.at).count();
  return {.cpu_ms = (end.cpu - begin.cpu) * 1e3 / steps / static_cast<double>(processes_.size()),
          .wall_ms = ms / steps,
          .peak_bytes = processes_.front()->peak_bytes()};
}

}  // namespace ddprun::bench
