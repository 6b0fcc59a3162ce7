#include "agent/progress/slow_rank_watch.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "agent/progress/progress_page.hpp"
#include "agent/workers/worker_environment.hpp"

namespace ddprun::agent {

SlowRankWatch::SlowRankWatch(boost::asio::io_context& context, const AgentConfig& config,
                             Events events)
    : config_(config), events_(std::move(events)), pages_(context), timer_(context) {}

void SlowRankWatch::begin() {
  stop();
  // One alone is compared with nobody.
  if (config_.run_directory.empty() || config_.workers.size() < 2) return;
  is_on_ = true;
  told_.assign(config_.workers.size(), false);
  await_page();
  // It may have made its page before that, or in an earlier round.
  if (any_has_page()) look_after(SlowRanks::kFirstLook);
}

bool SlowRankWatch::any_has_page() const {
  const WorkerGroup* const group = events_.group();
  for (std::size_t i = 0; group != nullptr && i < group->workers().size(); ++i) {
    const std::string page = progress_file(config_, group->workers()[i].start, static_cast<int>(i));
    if (access(page.c_str(), F_OK) == 0) return true;
  }
  return false;
}

void SlowRankWatch::stop() {
  is_on_ = false;
  ErrorCode ignored;
  if (pages_.is_open()) pages_.close(ignored);
  timer_.cancel();
  ranks_.forget();
  slow_.clear();
}

/// Where the system refuses that, no worker is called slow.
void SlowRankWatch::await_page() {
  const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (fd < 0) return;
  ErrorCode failed;
  if (inotify_add_watch(fd, config_.run_directory.c_str(), IN_CREATE) >= 0)
    pages_.assign(fd, failed);
  if (!pages_.is_open()) {
    close(fd);
    return;
  }
  wait_for_page();
}

/// Other files are made there, too.
void SlowRankWatch::wait_for_page() {
  pages_.async_wait(boost::asio::posix::descriptor_base::wait_read, [this](ErrorCode ec) {
    if (ec || !is_on_) return;
    std::array<char, 4096> ignored;
    while (read(pages_.native_handle(), ignored.data(), ignored.size()) > 0) {
    }
    return any_has_page() ? look_after(SlowRanks::kFirstLook) : wait_for_page();
  });
}

void SlowRankWatch::pause() { timer_.cancel(); }

void SlowRankWatch::resume() {
  ranks_.forget();
  if (is_on_ && !pages_.is_open()) look_after(SlowRanks::kFirstLook);
}

void SlowRankWatch::look_after(std::chrono::seconds time) {
  ErrorCode ignored;
  if (pages_.is_open()) pages_.close(ignored);
  timer_.expires_after(time);
  timer_.async_wait([this](ErrorCode ec) {
    if (!ec && is_on_) look();
  });
}

std::optional<WorkDone> SlowRankWatch::work_of(const WorkerRecord& worker, int local_rank) const {
  if (!worker.running() || worker.waits()) return std::nullopt;
  const auto page = read_progress_page(progress_file(config_, worker.start, local_rank)).page;
  if (!page || !page->times || !page->watched) return std::nullopt;
  // Negative where a worker says nonsense, which is then no number.
  return WorkDone{page->step, std::chrono::nanoseconds(page->time_ns),
                  std::chrono::nanoseconds(page->times->waiting_ns + page->times->saving_ns)};
}

std::vector<std::optional<WorkDone>> SlowRankWatch::work_of_all() const {
  std::vector<std::optional<WorkDone>> work;
  const WorkerGroup* const group = events_.group();
  for (std::size_t i = 0; group != nullptr && i < group->workers().size(); ++i)
    work.push_back(work_of(group->workers()[i], static_cast<int>(i)));
  return work;
}

void SlowRankWatch::look() {
  slow_.clear();
  look_after(SlowRanks::kLookEvery);
  for (const SlowRank& rank : ranks_.look(work_of_all())) {
    slow_[rank.local_rank] = rank.factor;
    const auto i = static_cast<std::size_t>(rank.local_rank);
    if (told_[i]) continue;
    told_[i] = true;
    events_.found(rank);
  }
}

}  // namespace ddprun::agent
