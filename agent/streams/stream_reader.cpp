// The side of WorkerOutput that runs on its thread.
#include "agent/streams/worker_output.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "agent/streams/output_stream.hpp"

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

}  // namespace

void WorkerOutput::run() {
  while (true) {
    full_ = false;
    const bool busy = take_events();
    draw(Steady::now());
    put_out(stdout_);
    put_out(stderr_);
    end_unread_streams();
    end_streams();
    take_new();
    {
      const std::lock_guard lock(mutex_);
      note_unfinished();
      if (stop_) return;
      over_ = over_next_;
      if (end_requested_ || catch_ups_done_ < catching_up_) continue;
    }
    if (busy && !full_ && rests_) rest();
  }
}

/// Whether the bytes of the stream would find a place. Those of a dead worker wait for no console,
/// and those of its stderr for nothing: the verdict wants them.
bool WorkerOutput::may_read(const OutputStream& stream) {
  const OutputSource& source = stream.source;
  const auto now = Steady::now();
  const bool over = source.round < over_;
  // A flood of stdout in the same pipe must not take the place that is kept for others' exceptions.
  const bool floods = source.both && stream.last_read >= kQuietBytes;
  const auto urgency = over                               ? LogUrgency::round_over
                       : source.standard_error && !floods ? LogUrgency::evidence
                                                          : LogUrgency::usual;
  LogWriter& console = outlet_for(source.standard_error).writer;
  if (source.to_console && !console.accepts(now, urgency)) return false;
  const bool to_file = source.file || source.filtered_file;
  return !to_file || (over && source.standard_error) || file_writer_.accepts(now, urgency);
}

/// From any thread.
ErrorCode WorkerOutput::listen_to(int fd) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0 ? ErrorCode()
                                                                 : last_system_error();
}

/// In the order in which they began to wait, so that all have their turn.
void WorkerOutput::resume_streams() {
  std::vector<int> waiting;
  waiting.swap(paused_);
  unwatched_ = false;
  for (const int fd : waiting) {
    OutputStream& stream = *streams_.at(fd);
    const bool has_place = may_read(stream);
    const bool refused = has_place && listen_to(fd);
    unwatched_ = unwatched_ || refused;
    stream.set_paused(!has_place || refused);
    if (stream.paused) paused_.push_back(fd);
  }
}

/// Reads from all streams that have bytes; true: the next ones came soon.
bool WorkerOutput::take_events() {
  std::array<epoll_event, 64> events{};
  const auto began = Steady::now();
  if (!paused_.empty()) resume_streams();
  const bool catches_up = catch_ups_done_ < catching_up_;
  const int ready = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                               catches_up ? 0 : wait_limit(began));
  const auto now = Steady::now();
  const bool busy = ready > 0 && now - began < kRest;
  for (int i = 0; i < ready; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    if (fd == wake_.get()) {
      eventfd_t ignored = 0;
      eventfd_read(fd, &ignored);
      continue;
    }
    const auto found = streams_.find(fd);
    if (found == streams_.end()) continue;  // new: it is taken before the next turn
    if (!catches_up) read_or_pause(*found->second);
  }
  if (catches_up) read_behind();
  look_at_unfinished(now);
  show_folded(now);
  return busy;
}

void WorkerOutput::read_or_pause(OutputStream& stream) {
  if (may_read(stream)) {
    read(stream);
    return;
  }
  const int fd = stream.source.fd.get();
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  stream.set_paused(true);
  stream.late = true;
  paused_.push_back(fd);
}

/// One turn of catching up. Not by epoll: of many descriptors it names those first that always have
/// bytes. A stream without a place for its bytes is not waited for.
void WorkerOutput::read_behind() {
  bool behind = false;
  for (const auto& [fd, stream] : streams_) {
    if (stream->behind > 0 && !stream->paused) read_or_pause(*stream);
    if (stream->paused) stream->behind = 0;
    behind = behind || stream->behind > 0;
  }
  if (behind) return;
  const std::lock_guard lock(mutex_);
  catch_ups_done_ = catching_up_;
  changed_.notify_all();
  if (caught_up_) caught_up_();
}

/// Lets lines gather in the pipes. `wake_` ends the rest.
void WorkerOutput::rest() {
  std::vector<pollfd> entries{{wake_.get(), POLLIN, 0}};
  if (poll(entries.data(), 1, static_cast<int>(kShortRest / 1ms)) > 0) return;
  for (const auto& [fd, stream] : streams_) {
    if (stream->source.standard_error && !stream->paused && stream->last_read < kQuietBytes)
      entries.push_back({fd, POLLIN, 0});
  }
  poll(entries.data(), entries.size(), static_cast<int>((kRest - kShortRest) / 1ms));
}

void WorkerOutput::take_new() {
  std::vector<OutputSource> sources;
  std::vector<std::string> lines;
  bool resized = false;
  bool falls_behind = false;
  bool flushed = false;
  {
    const std::lock_guard lock(mutex_);
    sources.swap(new_sources_);
    falls_behind = catching_up_ != catch_ups_wanted_;
    catching_up_ = catch_ups_wanted_;
    resized = resizes_done_ != resizes_wanted_;
    flushed = flush_begun_ && folds_;
    lines = new_lines_;
    // A report is about the newest round, or the one before it.
    if (!sources.empty() && sources.front().round > 0) {
      tails_.erase(tails_.begin(), tails_.lower_bound({sources.front().round - 1, 0}));
    }
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
      take_size(*stream);
    }
    streams_[fd] = std::move(stream);
  }
  if (!sources.empty()) count_ranks();
  if (falls_behind) {
    for (const auto& [fd, stream] : streams_) stream->fall_behind();
  }
  if (resized) change_size();
  if (flushed) end_fold();
  if (!lines.empty()) take_lines(lines);
}

/// Those of which a line may wait for the others.
void WorkerOutput::count_ranks() {
  for (Outlet* outlet : {&stdout_, &stderr_}) {
    std::vector<int> ranks;
    for (const auto& [fd, stream] : streams_) {
      const OutputSource& source = stream->source;
      if (&outlet_for(source.standard_error) != outlet || !source.folds_as) continue;
      ranks.push_back(*source.folds_as);
      outlet->coloured = source.coloured;
    }
    outlet->fold.set_ranks(ranks);
  }
}

/// Lines of our own, between the workers'.
void WorkerOutput::take_lines(const std::vector<std::string>& lines) {
  Outlet& outlet = outlet_for(true);
  outlet.fold.release_all();
  show_folded(Steady::now());
  put_out(outlet);
  LogBuffer ours;
  for (const std::string& line : lines)
    outlet.console.add(kOurSource, {}, line, LineEnding::newline, ours);
  hand_over(outlet.writer, outlet.output, ours, LogOrigin::ours);
  const std::lock_guard lock(mutex_);
  new_lines_.erase(new_lines_.begin(),
                   new_lines_.begin() + static_cast<std::ptrdiff_t>(lines.size()));
  note_unfinished();
  changed_.notify_all();
}

void WorkerOutput::put_out(Outlet& outlet) {
  if (outlet.bytes.empty()) return;
  hand_over(outlet.writer, outlet.output, outlet.bytes);
  const std::uint64_t dropped = outlet.writer.dropped_bytes();
  if (dropped != outlet.dropped) outlet.console.forget_screen();
  outlet.dropped = dropped;
}

/// Much goes away with its buffer; of little a copy does, because a queue of large buffers with a
/// line in each would be as large as memory.
void WorkerOutput::hand_over(LogWriter& writer, const std::shared_ptr<ByteOutput>& output,
                             LogBuffer& bytes, LogOrigin origin) {
  if (bytes.empty()) return;
  if (bytes.size() < kSmallReadBytes) {
    writer.write(output, LogBuffer(bytes.view()), origin);
    bytes.clear();
  } else {
    writer.write(output, std::move(bytes), origin);
  }
}

/// The tail of a stderr, or null for another stream. Called under the lock.
StreamTail* WorkerOutput::tail_of(const OutputStream& stream) {
  if (!stream.source.standard_error) return nullptr;
  StreamTail& tail = tails_[{stream.source.round, stream.source.local_rank}];
  if (stream.source.both) tail.with_stdout();
  tail.passed_on = stream.source.verbatim && stream.source.to_console;
  return &tail;
}

void WorkerOutput::read(OutputStream& stream) {
  const int fd = stream.source.fd.get();
  if (read_.capacity() < kLogBufferBytes) read_ = file_writer_.buffer();
  read_.clear();
  const ssize_t n = ::read(fd, read_.room(kLogBufferBytes), kLogBufferBytes);
  // A pseudo-terminal that has lost its last user gives EIO instead of 0.
  const bool ended = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
  const bool late = stream.late;
  full_ = stream.took(n) || full_;
  if (n < 0 && !ended) return;
  if (n > 0) {
    read_.grow(static_cast<std::size_t>(n));
    if (stream.source.bytes_read) *stream.source.bytes_read += read_.size();
  }
  if (n > 0 && !late && !stream.source.standard_error) {
    const std::lock_guard lock(mutex_);
    const auto tail = tails_.find({stream.source.round, stream.source.local_rank});
    if (tail != tails_.end()) tail->second.other_output();
  }
  if (stream.wants_lines()) {
    Outlet& outlet = outlet_for(stream.source.standard_error);
    if (outlet.bytes.capacity() == 0) outlet.bytes = outlet.writer.buffer();
    const bool keep = stream.source.standard_error;
    if (stream.source.verbatim && stream.source.to_console)
      outlet.console.pass(stream.id, read_.view(), outlet.bytes);
    std::unique_lock lock(mutex_, std::defer_lock);
    if (keep) lock.lock();
    LineSink sink(stream, outlet.console, outlet.fold, outlet.bytes, tail_of(stream));
    const auto now = Steady::now();
    if (stream.text.in_prompt() && is_no_prompt(read_.view())) stream.text.end_prompt(sink);
    stream.text.feed(read_.view(), now, sink);
    if (ended) stream.text.finish(sink);
    if (ended && stream.source.folds_as) outlet.fold.release(*stream.source.folds_as);
    if (lock) lock.unlock();
    show_unfinished(stream, now);
  }
  hand_over(file_writer_, stream.source.filtered_file, stream.filtered);
  if (stream.source.file) hand_over(file_writer_, stream.source.file, read_);
  Outlet& outlet = outlet_for(stream.source.standard_error);
  if (outlet.bytes.size() >= kLogBufferBytes / 2) put_out(outlet);
  if (ended) ended_.push_back(fd);
}

/// A worker finds out that its reader is gone, as if it wrote there itself.
void WorkerOutput::end_unread_streams() {
  if (!copies_) return;
  for (const auto& [fd, stream] : streams_) {
    if (!stream->source.verbatim || !outlet_for(stream->source.standard_error).writer.unread())
      continue;
    if (std::find(ended_.begin(), ended_.end(), fd) != ended_.end()) continue;
    std::erase(paused_, fd);
    ended_.push_back(fd);
  }
}

/// Not before all that was read of them has been handed over: a caller that waits for their end
/// then waits for the writers.
void WorkerOutput::end_streams() {
  if (ended_.empty()) return;
  for (const int fd : ended_) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    if (const auto ended = streams_.extract(fd); !ended.empty()) ended.mapped()->set_paused(false);
  }
  count_ranks();
  const std::lock_guard lock(mutex_);
  note_unfinished();
  open_ -= ended_.size();
  ended_.clear();
  if (open_ == 0) changed_.notify_all();  // callers wait for the last one
}

}  // namespace ddprun::agent
