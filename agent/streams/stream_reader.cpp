#include "agent/streams/stream_reader.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace ddprun::agent {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

namespace {

constexpr int kOurSource = -1;  // lines of ddprun itself
// Workers that print all the time are read so often, not once for each line. A line waits so long
// at most, and only behind one that came less than that before it.
constexpr auto kRest = 8ms;
// An exception is stamped when it is read, so a stderr that has not much to say ends the rest after
// this time.
constexpr auto kShortRest = 1ms;
constexpr ssize_t kQuietBytes = 4096;
constexpr int kTerminalReadBytes = 4095;  // a pseudo-terminal gives no more at once
constexpr auto kWatchAgain = 100ms;       // after the system refused to watch a stream

}  // namespace

StreamReader::StreamReader(const OutputSettings& settings, StreamWatch& watch,
                           OutputRequests& requests, StreamTails& tails, Outlets& outlets)
    : watch_(watch),
      requests_(requests),
      tails_(tails),
      outlets_(outlets),
      caught_up_(settings.caught_up),
      recent_(settings.recent),
      unfinished_(streams_, outlets, tails, settings.bar_interval) {}

void StreamReader::run() {
  while (true) {
    full_ = false;
    const bool busy = take_events();
    draw();
    outlets_.put_out();
    end_unread_streams();
    end_streams();
    take_requests();
    {
      const std::lock_guard lock(requests_.mutex);
      requests_.sight = outlets_.sight();
      if (requests_.stop) return;
      over_ = requests_.over;
      kept_ = requests_.kept;
      if (requests_.streams_must_end || is_behind_) continue;
    }
    if (busy && !full_ && rests_) rest();
  }
}

/// Reads from all streams that have bytes; true: the next ones came soon.
bool StreamReader::take_events() {
  std::array<epoll_event, 64> events{};
  const auto began = Steady::now();
  if (!paused_.empty()) resume_streams();
  const int ready = epoll_wait(watch_.epoll_fd(), events.data(), static_cast<int>(events.size()),
                               is_behind_ ? 0 : wait_limit(began));
  const auto now = Steady::now();
  const bool busy = ready > 0 && now - began < kRest;
  for (int i = 0; i < ready; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    if (fd == watch_.wake_fd()) {
      watch_.note_woken();
      continue;
    }
    const auto found = streams_.find(fd);
    if (found == streams_.end()) continue;  // new: it is taken before the next turn
    if (!is_behind_) read_or_pause(*found->second);
  }
  if (is_behind_) read_behind();
  unfinished_.look(now);
  outlets_.show_folded(now);
  return busy;
}

/// How long to wait for workers before there is something else to do, in milliseconds; -1: for
/// ever.
int StreamReader::wait_limit(Steady::time_point now) {
  constexpr auto kNever = Steady::time_point::max();
  auto first = unfinished_.due(now).value_or(kNever);
  const auto consider = [&](const std::optional<Steady::time_point>& at) {
    if (at) first = std::min(first, *at);
  };
  if (!paused_.empty()) {
    for (const LogWriter* writer : outlets_.writers()) consider(writer->patience_ends());
    if (unwatched_) consider(now + kWatchAgain);
  }
  for (const Outlet* outlet : outlets_.both()) consider(outlet->fold.due());
  if (first == kNever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - now);
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

/// Lets lines gather in the pipes. A request ends the rest.
void StreamReader::rest() {
  std::vector<pollfd> entries{{watch_.wake_fd(), POLLIN, 0}};
  if (poll(entries.data(), 1, static_cast<int>(kShortRest / 1ms)) > 0) return;
  for (const auto& [fd, stream] : streams_) {
    if (stream->source.standard_error && !stream->paused && stream->last_read < kQuietBytes)
      entries.push_back({fd, POLLIN, 0});
  }
  poll(entries.data(), entries.size(), static_cast<int>((kRest - kShortRest) / 1ms));
}

void StreamReader::take_requests() {
  std::vector<OutputSource> sources;
  std::vector<std::string> lines;
  Request<std::uint64_t> resized;
  bool falls_behind = false;
  bool ends_folds = false;
  {
    const std::lock_guard lock(requests_.mutex);
    sources.swap(requests_.new_sources);
    lines = requests_.new_lines;
    resized = requests_.resize;
    falls_behind = catch_up_ != requests_.catch_up.wanted;
    catch_up_ = requests_.catch_up.wanted;
    ends_folds = requests_.end_folds.is_open();
  }
  if (!sources.empty()) take_sources(std::move(sources));
  if (falls_behind) {
    is_behind_ = true;
    for (const auto& [fd, stream] : streams_) stream->fall_behind();
  }
  if (resized.is_open()) resize(resized.wanted);
  if (ends_folds) end_folds();
  if (!lines.empty()) take_lines(lines);
}

void StreamReader::take_sources(std::vector<OutputSource> sources) {
  // A report is about the newest round, or the one before it.
  if (sources.front().round > 0) {
    tails_.forget_before(sources.front().round - 1);
    if (recent_) recent_->forget_before(sources.front().round - 1);
  }
  for (OutputSource& source : sources) {
    const int fd = source.fd.get();
    auto stream = std::make_unique<OutputStream>();
    stream->source = std::move(source);
    stream->id = next_id_++;
    copies_ = copies_ || stream->source.verbatim;
    if (stream->source.verbatim && !stream->source.both) rests_ = false;
    if (stream->source.terminal) {
      stream->pipe_bytes = kTerminalReadBytes;
      unfinished_.take_size(*stream);
    }
    streams_[fd] = std::move(stream);
  }
  count_ranks();
}

/// Lines of our own, between the workers'.
void StreamReader::take_lines(const std::vector<std::string>& lines) {
  Outlet& outlet = outlets_.of(true);
  outlet.fold.release_all();
  outlets_.show_folded(Steady::now());
  outlet.put_out();
  LogBuffer ours;
  for (const std::string& line : lines)
    outlet.console.add(kOurSource, {}, line, LineEnding::newline, ours);
  hand_over(outlet.writer, outlet.output, ours, LogOrigin::ours);
  const std::lock_guard lock(requests_.mutex);
  auto& asked = requests_.new_lines;
  asked.erase(asked.begin(), asked.begin() + static_cast<std::ptrdiff_t>(lines.size()));
  requests_.sight = outlets_.sight();
  requests_.changed.notify_all();
  if (requests_.is_drained() && caught_up_) caught_up_();
}

void StreamReader::resize(std::uint64_t number) {
  unfinished_.resize(Steady::now());
  const std::lock_guard lock(requests_.mutex);
  requests_.resize.done = number;
  requests_.changed.notify_all();
}

void StreamReader::draw() {
  bool paused = false;
  bool is_answered = false;
  {
    const std::lock_guard lock(requests_.mutex);
    paused = requests_.pause.wanted;
    is_answered = requests_.pause.done == paused;
  }
  unfinished_.draw(Steady::now(), paused);
  if (is_answered) return;
  const std::lock_guard lock(requests_.mutex);
  requests_.pause.done = paused;
  requests_.sight = outlets_.sight();
  requests_.changed.notify_all();
}

/// Before the end of the writers: what is held back would be lost, and not be counted.
void StreamReader::end_folds() {
  outlets_.end_folds();
  const std::lock_guard lock(requests_.mutex);
  requests_.sight = outlets_.sight();
  requests_.end_folds.done = true;
  requests_.changed.notify_all();
}

void StreamReader::end_catch_up() {
  is_behind_ = false;
  const std::lock_guard lock(requests_.mutex);
  requests_.catch_up.done = catch_up_;
  requests_.changed.notify_all();
  if (caught_up_) caught_up_();
}

/// Whether the bytes of the stream would find a place. Those of a dead worker wait for no console,
/// and those of its stderr for nothing: the verdict wants them.
bool StreamReader::may_read(const OutputStream& stream) {
  const OutputSource& source = stream.source;
  const auto now = Steady::now();
  const bool goes_on = kept_ != nullptr && kept_->contains(source.worker());
  const bool over = source.round < over_ && !goes_on;
  // A flood of stdout in the same pipe must not take the place that is kept for others' exceptions.
  const bool floods = source.both && stream.last_read >= kQuietBytes;
  const auto urgency = over                               ? LogUrgency::round_over
                       : source.standard_error && !floods ? LogUrgency::evidence
                                                          : LogUrgency::usual;
  LogWriter& console = outlets_.of(source.standard_error).writer;
  if (source.to_console && !console.accepts(now, urgency)) return false;
  const bool to_file = source.file || source.filtered_file;
  return !to_file || (over && source.standard_error) || outlets_.files().accepts(now, urgency);
}

/// In the order in which they began to wait, so that all have their turn.
void StreamReader::resume_streams() {
  std::vector<int> waiting;
  waiting.swap(paused_);
  unwatched_ = false;
  for (const int fd : waiting) {
    OutputStream& stream = *streams_.at(fd);
    const bool has_place = may_read(stream);
    const bool refused = has_place && watch_.add(fd);
    unwatched_ = unwatched_ || refused;
    stream.set_paused(!has_place || refused);
    if (stream.paused) paused_.push_back(fd);
  }
}

void StreamReader::read_or_pause(OutputStream& stream) {
  if (may_read(stream)) {
    read(stream);
    return;
  }
  const int fd = stream.source.fd.get();
  watch_.remove(fd);
  stream.set_paused(true);
  stream.late = true;
  paused_.push_back(fd);
}

/// One turn of catching up. Not by epoll: of many descriptors it names those first that always have
/// bytes. A stream without a place for its bytes is not waited for.
void StreamReader::read_behind() {
  bool behind = false;
  for (const auto& [fd, stream] : streams_) {
    if (stream->behind > 0 && !stream->paused) read_or_pause(*stream);
    if (stream->paused) stream->behind = 0;
    behind = behind || stream->behind > 0;
  }
  if (!behind) end_catch_up();
}

void StreamReader::read(OutputStream& stream) {
  const OutputSource& source = stream.source;
  if (read_.capacity() < kLogBufferBytes) read_ = outlets_.files().buffer();
  read_.clear();
  const ssize_t n = ::read(source.fd.get(), read_.room(kLogBufferBytes), kLogBufferBytes);
  // A pseudo-terminal that has lost its last user gives EIO instead of 0.
  const bool ended = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
  const bool late = stream.late;
  full_ = stream.took(n) || full_;
  if (n < 0 && !ended) return;
  if (n > 0) {
    read_.grow(static_cast<std::size_t>(n));
    if (source.bytes_read) *source.bytes_read += read_.size();
    if (!late && !source.standard_error) tails_.note_other_output(source);
    if (recent_) recent_->add(source, read_.view());
  }
  if (stream.wants_lines()) feed_lines(stream, ended);
  hand_over(outlets_.files(), source.filtered_file, stream.filtered);
  if (source.file) hand_over(outlets_.files(), source.file, read_);
  Outlet& outlet = outlets_.of(source.standard_error);
  if (outlet.bytes.size() >= kLogBufferBytes / 2) outlet.put_out();
  if (ended) ended_.push_back(source.fd.get());
}

/// What was read, as lines for the console and for the worker's last ones.
void StreamReader::feed_lines(OutputStream& stream, bool ended) {
  const OutputSource& source = stream.source;
  Outlet& outlet = outlets_.of(source.standard_error);
  if (outlet.bytes.capacity() == 0) outlet.bytes = outlet.writer.buffer();
  if (source.verbatim && source.to_console)
    outlet.console.pass(stream.id, read_.view(), outlet.bytes);
  const auto now = Steady::now();
  {
    const StreamTails::Locked kept = tails_.of(source);  // once for all lines
    LineSink sink(stream, outlet, kept.tail);
    if (stream.text.in_prompt() && UnfinishedLines::is_no_prompt(read_.view()))
      stream.text.end_prompt(sink);
    stream.text.feed(read_.view(), now, sink);
    if (ended) stream.text.finish(sink);
  }
  if (ended && source.folds_as) outlet.fold.release(*source.folds_as);
  unfinished_.show(stream, now);
}

/// A worker finds out that its reader is gone, as if it wrote there itself.
void StreamReader::end_unread_streams() {
  if (!copies_) return;
  for (const auto& [fd, stream] : streams_) {
    if (!stream->source.verbatim || !outlets_.of(stream->source.standard_error).writer.unread())
      continue;
    if (std::find(ended_.begin(), ended_.end(), fd) != ended_.end()) continue;
    std::erase(paused_, fd);
    ended_.push_back(fd);
  }
}

/// Not before all that was read of them has been handed over: a caller that waits for their end
/// then waits for the writers.
void StreamReader::end_streams() {
  if (ended_.empty()) return;
  std::vector<WorkerKey> workers;
  for (const int fd : ended_) {
    watch_.remove(fd);
    const auto ended = streams_.extract(fd);
    if (ended.empty()) continue;
    ended.mapped()->set_paused(false);
    if (recent_) recent_->note_end(ended.mapped()->source);
    workers.push_back(ended.mapped()->source.worker());
  }
  ended_.clear();
  count_ranks();
  const std::lock_guard lock(requests_.mutex);
  requests_.sight = outlets_.sight();
  for (const WorkerKey& worker : workers)
    if (--requests_.open_streams[worker] == 0) requests_.open_streams.erase(worker);
  if (!requests_.is_drained()) return;
  requests_.changed.notify_all();  // callers wait for the last one
  if (caught_up_) caught_up_();
}

/// Those of which a line may wait for the others.
void StreamReader::count_ranks() {
  for (Outlet* outlet : outlets_.both()) {
    std::vector<int> ranks;
    for (const auto& [fd, stream] : streams_) {
      const OutputSource& source = stream->source;
      if (&outlets_.of(source.standard_error) != outlet || !source.folds_as) continue;
      ranks.push_back(*source.folds_as);
      outlet->coloured = source.coloured;
    }
    outlet->fold.set_ranks(ranks);
  }
}

}  // namespace ddprun::agent
