#include "agent/control/job_output.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "agent/workers/open_files.hpp"
#include "base/bounded_write.hpp"
#include "base/byte_output.hpp"
#include "base/no_descriptor.hpp"
#include "base/printable.hpp"
#include "base/start_thread.hpp"

namespace ddprun::agent {

ErrorCode QuietStreams::watch(std::vector<OutputSource> sources) {
  end();
  UniqueFd set(epoll_create1(EPOLL_CLOEXEC));
  if (!set) return last_system_error();
  for (const OutputSource& source : sources) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = source.fd.get();
    if (epoll_ctl(set.get(), EPOLL_CTL_ADD, event.data.fd, &event) != 0) return last_system_error();
  }
  ErrorCode failed;
  events_.emplace(context_).assign(set.get(), failed);
  if (failed) {
    events_.reset();
    return failed;
  }
  static_cast<void>(set.release());  // Asio closes it
  sources_ = std::move(sources);
  await_event();
  return {};
}

void QuietStreams::await_event() {
  events_->async_wait(boost::asio::posix::descriptor_base::wait_read, [this](ErrorCode ec) {
    if (ec || !events_) return;
    look();
    if (events_) await_event();
  });
}

void QuietStreams::look() {
  std::array<epoll_event, 64> found{};
  while (events_) {
    const int set = events_->native_handle();
    const int count = epoll_wait(set, found.data(), static_cast<int>(found.size()), 0);
    if (count <= 0) return;
    for (const epoll_event& event : std::span(found).first(static_cast<std::size_t>(count))) {
      if ((event.events & EPOLLIN) != 0) return hand_over();
      epoll_ctl(set, EPOLL_CTL_DEL, event.data.fd, nullptr);  // it has ended, and is heard no more
    }
  }
}

void QuietStreams::hand_over() {
  if (sources_.empty()) return;
  events_.reset();
  take_(std::exchange(sources_, {}));
}

void QuietStreams::end() {
  look();
  events_.reset();
  sources_.clear();
}

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kNoticeLimit = 500ms;
constexpr auto kScreenLimit = 200ms;     // for a change of what the terminal shows
constexpr auto kWaitLimit = 200ms;       // for the log thread to read the last words of workers
constexpr auto kLastWordsLimit = 200ms;  // for the streams of dead workers to end
constexpr auto kBusyThreadLimit = 2s;    // for the log thread to read what is in them
constexpr auto kReaderTurn = 100ms;      // while a slow reader is waited for
constexpr auto kTellEvery = 50ms;        // those who follow what workers print

/// ddprun's own log, line by line.
class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit Sink(std::function<void(const std::string&)> say) : say_(std::move(say)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    (message.level < spdlog::level::warn ? with_time_ : plain_).format(message, text);
    std::string line(text.data(), text.size());
    while (!line.empty() && line.back() == '\n') line.pop_back();
    say_(printable(line));
  }
  void flush_() override {}

  std::function<void(const std::string&)> say_;
  // A formatter must not run twice at a time: base_sink holds its mutex meanwhile.
  spdlog::pattern_formatter plain_{"%l: %v", spdlog::pattern_time_type::local, ""};
  spdlog::pattern_formatter with_time_{"%H:%M:%S.%e %l: %v", spdlog::pattern_time_type::local, ""};
};

std::string why_not_read(const ErrorCode& refused) {
  return refused.value() == EAGAIN ? why_no_thread(refused) : why_no_descriptor(refused);
}

bool copies_output(const AgentConfig& config) {
  return std::any_of(config.workers.begin(), config.workers.end(), [](const auto& worker) {
    return worker.standard_error.mode == StreamMode::copy;
  });
}

}  // namespace

JobOutput::JobOutput(boost::asio::io_context& context, const AgentConfig& config, Events events)
    : context_(context),
      config_(config),
      events_(std::move(events)),
      more_later_(context),
      recent_(std::make_shared<RecentOutput>(
          [this] { boost::asio::post(context_, [this] { tell_of_more(); }); })),
      quiet_streams_(context,
                     [this](std::vector<OutputSource> sources) { read(std::move(sources)); }),
      wait_limit_(context, [this] { end_waits(true); }),
      ending_limit_(context, [this] { go_on_ending(true); }) {}

std::string JobOutput::prepare() {
  if (output_ || !reads_output(config_)) return "";
  output_.emplace(OutputSettings{.policy = config_.logs.policy,
                                 .bar_interval = config_.logs.bar_interval,
                                 .caught_up =
                                     [this] {
                                       boost::asio::post(context_, [this] {
                                         end_waits(false);
                                         go_on_ending(false);
                                       });
                                     },
                                 .recent = recent_});
  if (output_->usable()) return "";
  output_.reset();
  return "cannot read the workers' output: too few open files; raise the limit (ulimit -n)";
}

std::string JobOutput::watch(std::vector<OutputSource> sources, bool any_goes_on) {
  wait_left_ = kWaitLimit;
  if (any_goes_on) quiet_streams_.hand_over();
  if (sources.empty()) return "";
  const ErrorCode refused = quiet_streams_.watch(std::move(sources));
  return refused ? why_not_read(refused) : "";
}

void JobOutput::read(std::vector<OutputSource> sources) {
  if (const ErrorCode refused = output_->add(std::move(sources)))
    events_.failed(why_not_read(refused));
}

void JobOutput::say(const std::string& line) {
  const std::string text = printable(line);
  if (events_.said) events_.said(text);
  if (!output_ || !output_->say(text)) write_within(STDERR_FILENO, text + "\n", kNoticeLimit);
}

void JobOutput::take_log() {
  auto logger = std::make_shared<spdlog::logger>(
      "ddprun", std::make_shared<Sink>([this](const std::string& line) { log(line); }));
  logger->set_level(config_.streams.log_level);
  spdlog::set_default_logger(std::move(logger));
}

void JobOutput::log(const std::string& line) {
  if (std::this_thread::get_id() == thread_) return notice(line);
  boost::asio::post(context_, [this, line] { notice(line); });
}

/// Not for each line: those who follow a flood take little of the control thread's time.
void JobOutput::tell_of_more() {
  more_later_.expires_after(kTellEvery);
  more_later_.async_wait([this](ErrorCode cancelled) {
    if (cancelled) return;
    recent_->looked();
    if (events_.has_more) events_.has_more();
  });
}

void JobOutput::resize() {
  if (!output_) return;
  quiet_streams_.hand_over();
  output_->resize(Clock::now() + kScreenLimit);
}

void JobOutput::pause() {
  if (output_) output_->pause(Clock::now() + kScreenLimit);
}

void JobOutput::resume() {
  if (output_) output_->resume();
}

void JobOutput::when_read(std::function<void()> then) {
  if (!output_) return then();
  quiet_streams_.look();
  const std::uint64_t catch_up = output_->begin_catch_up();
  const bool is_first = waits_.empty();
  waits_.push_back({catch_up, std::move(then)});
  if (!is_first) return;
  waits_since_ = Clock::now();
  wait_limit_.follow(waits_since_ + wait_left_);
  end_waits(false);
}

void JobOutput::end_waits(bool is_late) {
  while (!waits_.empty() && (is_late || output_->has_caught_up(waits_.front().catch_up))) {
    const auto then = std::move(waits_.front().then);
    waits_.pop_front();
    if (waits_.empty()) {
      wait_limit_.follow(std::nullopt);
      wait_left_ -= std::min(wait_left_, Clock::now() - waits_since_);
    }
    then();
  }
}

std::string JobOutput::last_message(proto::RoundNumber round, int local_rank,
                                    Clock::time_point since) const {
  if (!output_) return "";
  const LineSigns signs = output_->signs(round, local_rank);
  return signs.first_at() && *signs.first_at() >= since ? signs.message() : "";
}

void JobOutput::when_ended(KeptWorkers kept, std::function<void()> then) {
  if (!output_) return then();
  quiet_streams_.look();
  output_->begin_drain(std::move(kept));  // in vain where an escaped process has a pipe
  ending_ = Ending{std::move(then)};
  ending_limit_.follow(Clock::now() + kLastWordsLimit);
  go_on_ending(false);
}

void JobOutput::go_on_ending(bool is_late) {
  if (!ending_) return;
  if (!ending_->catch_up) {
    if (!is_late && !output_->has_drained()) return;
    output_->end_drain();
    ending_->catch_up = output_->begin_catch_up();
    ending_limit_.follow(Clock::now() + kBusyThreadLimit);
    is_late = false;
  }
  if (!is_late && !output_->has_caught_up(*ending_->catch_up)) return;
  ending_limit_.follow(std::nullopt);
  const auto then = std::move(ending_->then);
  ending_.reset();
  then();
}

void JobOutput::end(bool cancelled, const std::function<void()>& still_ending) {
  if (!output_) return;
  auto limit = Clock::now() + kWriteLimit;
  quiet_streams_.end();
  output_->drain(limit);
  if (!cancelled) limit = Clock::now() + (wait_for_reader(still_ending) ? kWriteLimit : 0s);
  output_->flush(limit);
}

/// For as long as the reader is not stuck. A copy has no such limit: a worker that wrote to a slow
/// reader itself would still run. A signal that ends the job ends the wait, too; then false.
bool JobOutput::wait_for_reader(const std::function<void()>& still_ending) {
  const bool has_no_limit = copies_output(config_) && config_.logs.policy == LogPolicy::block;
  waits_for_reader_ = true;
  bool shown = output_->shown_by(Clock::now() + kReaderTurn);
  while (!shown && waits_for_reader_ && (has_no_limit || output_->reader_is_slow(Clock::now()))) {
    still_ending();
    context_.run_one_for(kReaderTurn);
    shown = output_->shown_by(Clock::now());
  }
  return std::exchange(waits_for_reader_, false);
}

std::optional<bool> JobOutput::unfinished_line(bool standard_error) const {
  bool writes_stdout = false;  // without us
  bool writes_stderr = false;
  for (const WorkerSettings& worker : config_.workers) {
    writes_stdout = writes_stdout || worker.standard_output.mode == StreamMode::inherit;
    writes_stderr = writes_stderr || worker.standard_error.mode == StreamMode::inherit;
  }
  if (same_output(STDOUT_FILENO, STDERR_FILENO))
    writes_stdout = writes_stderr = writes_stdout || writes_stderr;
  if (standard_error ? writes_stderr : writes_stdout) return std::nullopt;
  return output_ && output_->unfinished_line(standard_error);
}

}  // namespace ddprun::agent
