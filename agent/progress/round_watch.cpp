#include "agent/progress/round_watch.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/progress/thread_states.hpp"
#include "agent/workers/worker_environment.hpp"
#include "base/describe.hpp"
#include "base/process_stat.hpp"
#include "machine/processes/process_tree.hpp"

namespace ddprun::agent {
namespace {

using std::chrono::nanoseconds;

constexpr std::size_t kOtherThreadsShown = 3;  // of a worker that is silent beside the culprit

/// It reads stacks for somebody who asked for them.
bool is_helper_of_ours(int tracer) {
  const auto stat = tracer > 0 ? read_process_stat(tracer) : std::nullopt;
  return stat && stat->parent == getpid();
}

}  // namespace

RoundWatch::RoundWatch(boost::asio::io_context& context, const AgentConfig& config,
                       const machine::UserState& user, Handlers handlers)
    : config_(config), handlers_(std::move(handlers)), timer_(context), stacks_(context, user) {}

void RoundWatch::begin(const proto::Round& round, const WorkerGroup& group,
                       std::vector<OutputSource>& sources) {
  const bool pages =
      config_.watch.progress_timeout > nanoseconds(0) && !config_.run_directory.empty();
  const bool output = config_.watch.log_timeout > nanoseconds(0);
  if (config_.watch.progress_timeout > nanoseconds(0) && !pages &&
      !std::exchange(told_.no_folder, true))
    spdlog::warn("--progress-timeout has no effect: no folder for the pages could be made");
  const bool waits = config_.watch.kernel_timeout > nanoseconds(0);
  if (!pages && !output && !waits) return;
  stop();
  round_ = &round;
  group_ = &group;
  const int workers = static_cast<int>(group.workers().size());
  period_ = nanoseconds::max();
  if (pages) {
    progress_.emplace(workers, config_.watch.progress_timeout);
    period_ = std::min(period_, look_period(config_.watch.progress_timeout));
  }
  if (output) {
    output_.emplace(workers, config_.watch.log_timeout);
    period_ = std::min(period_, look_period(config_.watch.log_timeout));
    count_output(sources);
  }
  if (waits) {
    waits_.emplace(workers, config_.watch.kernel_timeout);
    period_ = std::min(period_, look_period(config_.watch.kernel_timeout));
  }
  watch_unread(sources);
  clock_.emplace(period_, Clock::now());
  if (paused_) clock_->pause();
  wait();
}

void RoundWatch::stop() {
  ++number_;
  timer_.cancel();
  stacks_.stop();
  taking_stacks_ = false;
  reported_ = false;
  clock_.reset();
  progress_.reset();
  output_.reset();
  waits_.reset();
}

void RoundWatch::pause() {
  paused_ = true;
  if (clock_) clock_->pause();
}

void RoundWatch::resume() {
  paused_ = false;
  if (clock_) clock_->resume();
}

/// Pages are read only now and then, and the silence of all workers is waited for: so `silent for`
/// is longer than the time-out.
std::string RoundWatch::hang_words(const SilentWorker& worker) const {
  const nanoseconds timeout = config_.watch.progress_timeout;
  return fmt::format("at {}, silent for {} (--progress-timeout is {}, checked every {})",
                     place_words(worker.page.step, worker.page.phase), describe(worker.silent_for),
                     describe(timeout), describe(period_));
}

std::optional<proto::SlowestWorker> RoundWatch::slowest(Clock::time_point round_began) const {
  const auto seen = progress_ ? progress_->slowest() : std::nullopt;
  if (!seen) return std::nullopt;
  proto::SlowestWorker slowest;
  slowest.place = seen->page.place;
  slowest.silent_for = seen->silent_for;
  proto::WorkerFailure& hang = slowest.as_hang;
  hang.local_rank = seen->local_rank;
  hang.pid = group_->workers()[static_cast<std::size_t>(seen->local_rank)].pid;
  hang.stopped_by_us = true;
  hang.progress = {seen->page.step, seen->page.phase};
  hang.evidence.kind = proto::EvidenceKind::hang;
  hang.evidence.at = std::max(nanoseconds(0), Clock::now() - seen->silent_for - round_began);
  hang.evidence.text = hang_words(*seen);
  return slowest;
}

void RoundWatch::count_output(std::vector<OutputSource>& sources) {
  printed_.resize(group_->workers().size());
  for (std::size_t i = 0; i < printed_.size(); ++i)
    if (!running(static_cast<int>(i))) printed_[i] = nullptr;  // of a worker that has ended
  for (OutputSource& source : sources) {
    // A stdout that we do not see may be where it prints; into a copy, Python prints late.
    const auto& settings = config_.workers[static_cast<std::size_t>(source.local_rank)];
    if (source.verbatim || settings.standard_output.mode == StreamMode::inherit) continue;
    Count& count = printed_[static_cast<std::size_t>(source.local_rank)];
    if (!count) count = std::make_shared<std::atomic<std::uint64_t>>(0);
    source.bytes_read = count;
  }
  const auto unseen = std::find(printed_.begin(), printed_.end(), nullptr);
  if (unseen == printed_.end() || told_.unseen) return;
  told_.unseen = true;
  spdlog::warn(
      "--log-timeout cannot see rank {}: what it prints does not pass through ddprun (use "
      "--output=prefix or --tee=3)",
      rank(static_cast<int>(unseen - printed_.begin())));
}

void RoundWatch::watch_unread(std::vector<OutputSource>& sources) {
  held_.resize(group_->workers().size());
  for (std::size_t i = 0; i < held_.size(); ++i)
    if (!held_[i].streams || !running(static_cast<int>(i)))
      held_[i] = {std::make_shared<UnreadStreams>()};
  for (OutputSource& source : sources)
    source.unread = held_[static_cast<std::size_t>(source.local_rank)].streams;
}

/// By local rank: whether a stream was left unread at any time since the look before.
std::vector<bool> RoundWatch::held_workers() {
  std::vector<bool> result;
  for (Held& held : held_) {
    // In this order: a pause that begins between the two is seen by one of them.
    const auto before = std::exchange(held.pauses_seen, held.streams->pauses.load());
    result.push_back(held.streams->now > 0 || held.pauses_seen != before);
  }
  return result;
}

void RoundWatch::wait() {
  timer_.expires_after(period_);
  timer_.async_wait([this, number = number_](ErrorCode ec) {
    if (ec || number != number_) return;
    look();
    if (number == number_) wait();
  });
}

void RoundWatch::look() {
  const nanoseconds elapsed = clock_->counted(Clock::now());
  if (waits_ && !reported_) look_at_waits(elapsed);
  const std::vector<bool> held = held_workers();
  if (output_ && !reported_) look_at_output(elapsed, held);
  // A worker that waits in a print holds up all that wait for it.
  const bool any_held = std::find(held.begin(), held.end(), true) != held.end();
  if (progress_ && !reported_ && !taking_stacks_)
    look_at_pages(any_held ? nanoseconds(0) : elapsed);
}

void RoundWatch::report(FoundHang found) {
  reported_ = true;
  handlers_.hung(std::move(found));
}

bool RoundWatch::running(int local_rank) const {
  return group_->workers()[static_cast<std::size_t>(local_rank)].running();
}

std::optional<ProgressPage> RoundWatch::read_page(int local_rank) {
  PageReading reading = read_progress_page(progress_file(
      config_, group_->workers()[static_cast<std::size_t>(local_rank)].start, local_rank));
  if (!reading.problem.empty() && !told_.page_problem) {
    told_.page_problem = true;
    spdlog::warn("the progress page of rank {} is ignored: {}", rank(local_rank), reading.problem);
  }
  return reading.page;
}

void RoundWatch::look_at_output(nanoseconds elapsed, const std::vector<bool>& held) {
  std::vector<std::optional<std::uint64_t>> printed(printed_.size());
  for (std::size_t i = 0; i < printed.size(); ++i) {
    if (printed_[i] && running(static_cast<int>(i))) printed[i] = printed_[i]->load();
  }
  for (const QuietWorker& quiet : output_->look(printed, elapsed, held)) {
    spdlog::warn("rank {} has printed nothing for {} (--log-timeout)", rank(quiet.local_rank),
                 describe(quiet.quiet_for));
  }
  if (config_.watch.on_silence == OnSilence::restart) judge_silence();
}

/// No debugger can stop such a worker, so what /proc tells is all there is.
void RoundWatch::look_at_waits(nanoseconds elapsed) {
  std::vector<std::optional<std::uint64_t>> waits(group_->workers().size());
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (running(static_cast<int>(i))) waits[i] = kernel_wait_of(group_->workers()[i].pid);
  }
  const auto stuck = waits_->look(waits, elapsed);
  if (!stuck) return;
  FoundHang found;
  found.local_rank = stuck->local_rank;
  found.message = fmt::format(
      "its main thread waits in the kernel (state D) for {} (--uninterruptible-timeout)",
      describe(stuck->lasted));
  found.since = Clock::now() - std::chrono::duration_cast<Clock::duration>(stuck->lasted);
  found.stacks = thread_states(group_->workers()[static_cast<std::size_t>(stuck->local_rank)].pid);
  if (progress_) {
    if (const auto page = read_page(stuck->local_rank)) found.progress = {page->step, page->phase};
  }
  handlers_.notice(fmt::format("rank {} hangs: {}", rank(stuck->local_rank), found.message));
  report(std::move(found));
}

/// Some workers never print, as all but rank 0 of many programs: only the silence of all is a hang.
void RoundWatch::judge_silence() {
  const auto quiet = output_->all_quiet();
  if (!quiet || blame_suspended(quiet->quiet_for)) return;
  for (const WorkerRecord& worker : group_->workers()) {
    const int tracer = worker.running() ? tracer_of(worker.pid) : 0;
    if (is_helper_of_ours(tracer)) return;  // until the next look
    if (tracer == 0) continue;
    handlers_.notice(fmt::format(
        "no worker prints anything; process {} debugs one, so ddprun does not stop them", tracer));
    output_->forget();
    return;
  }
  FoundHang found;
  found.local_rank = quiet->local_rank;
  found.message = fmt::format("no worker has printed anything for {} (--log-timeout)",
                              describe(quiet->quiet_for));
  found.all_silent = true;
  found.since = Clock::now() - std::chrono::duration_cast<Clock::duration>(quiet->quiet_for);
  report(std::move(found));
}

/// Whatever the others wait for: a worker that a signal holds goes on with nothing.
bool RoundWatch::blame_suspended(nanoseconds silent_for) {
  const auto& workers = group_->workers();
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const int local_rank = static_cast<int>(i);
    if (!running(local_rank) || !machine::condition_of(workers[i].pid).suspended) continue;
    FoundHang found;
    found.local_rank = local_rank;
    found.message = kSuspended;
    found.since = Clock::now() - std::chrono::duration_cast<Clock::duration>(silent_for);
    if (progress_) {
      if (const auto page = read_page(local_rank)) found.progress = {page->step, page->phase};
    }
    handlers_.notice(fmt::format("rank {} hangs: {}", rank(local_rank), kSuspended));
    report(std::move(found));
    return true;
  }
  return false;
}

void RoundWatch::look_at_pages(nanoseconds elapsed) {
  std::vector<Sighting> sightings(group_->workers().size());
  bool any_page = false;
  for (std::size_t i = 0; i < sightings.size(); ++i) {
    const int local_rank = static_cast<int>(i);
    sightings[i].running = running(local_rank);
    if (sightings[i].running) sightings[i].page = read_page(local_rank);
    any_page = any_page || sightings[i].page;
  }
  without_pages_ = any_page ? nanoseconds(0) : without_pages_ + elapsed;
  if (any_page || told_.page_problem) told_.without_pages = true;  // they know how
  if (without_pages_ >= config_.watch.progress_timeout &&
      !std::exchange(told_.without_pages, true)) {
    spdlog::warn(
        "--progress-timeout watches no worker yet: none has written a progress page, the file that "
        "DDPRUN_PROGRESS_FILE names (see ddprun --man)");
  }
  if (auto hang = progress_->look(sightings, elapsed)) judge(std::move(*hang));
}

void RoundWatch::judge(Hang hang) {
  const SilentWorker& culprit = hang.culprit;
  if (blame_suspended(culprit.silent_for)) return;
  const int pid = group_->workers()[static_cast<std::size_t>(culprit.local_rank)].pid;
  const std::string message = hang_words(culprit);
  const std::string what = fmt::format("rank {} hangs: {}", rank(culprit.local_rank), message);
  if (const int tracer = tracer_of(pid); tracer != 0) {
    if (is_helper_of_ours(tracer)) return;  // until the next look
    handlers_.notice(
        fmt::format("{}; process {} debugs it, so ddprun does not stop it", what, tracer));
    progress_->forget();
    return;
  }
  handlers_.notice(
      fmt::format("{}; reading its stacks (at most {} s)", what, kStacksLimit.count()));
  FoundHang found;
  found.local_rank = culprit.local_rank;
  found.message = message;
  found.progress = {culprit.page.step, culprit.page.phase};
  found.since = Clock::now() - std::chrono::duration_cast<Clock::duration>(culprit.silent_for);
  taking_stacks_ = true;
  stacks_.take(pid, [this, hang = std::move(hang),
                     found = std::move(found)](std::vector<std::string> lines) mutable {
    found.stacks = std::move(lines);
    stacks_taken(hang, std::move(found));
  });
}

void RoundWatch::stacks_taken(const Hang& hang, FoundHang found) {
  taking_stacks_ = false;
  const SilentWorker& culprit = hang.culprit;
  if (!running(culprit.local_rank)) return;  // its end is the news now
  if (read_page(culprit.local_rank) != culprit.page) {
    handlers_.notice(fmt::format("rank {} makes progress again", rank(culprit.local_rank)));
    progress_->forget();
    return;
  }
  for (const SilentWorker& other : hang.others) {
    if (!running(other.local_rank)) continue;
    found.stacks.push_back(fmt::format("rank {}, silent too, at {}:", rank(other.local_rank),
                                       place_words(other.page.step, other.page.phase)));
    auto threads = thread_states(group_->workers()[static_cast<std::size_t>(other.local_rank)].pid);
    threads.resize(std::min(threads.size(), kOtherThreadsShown));
    for (const std::string& thread : threads) found.stacks.push_back("  " + thread);
  }
  report(std::move(found));
}

}  // namespace ddprun::agent
