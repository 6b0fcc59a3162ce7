// The side of WorkerOutput that shows what is not finished: prompts, progress bars. Runs on its
// thread.
#include <algorithm>

#include "agent/streams/output_stream.hpp"
#include "agent/streams/terminal_size.hpp"
#include "agent/streams/terminal_text.hpp"
#include "agent/streams/worker_output.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

namespace {

constexpr auto kShowUnfinishedAfter = 100ms;  // the rest of a line is mostly on its way
constexpr auto kBusyConsole = 200ms;          // before bars are tried again on a slow terminal

/// Whether a line that stops here waits for somebody to type: `(Pdb) `, `Go on? [y/n] `, `Name:`.
bool looks_like_prompt(std::string_view line) {
  const auto last = line.find_last_not_of(' ');
  if (last == std::string_view::npos) return false;
  const bool question = std::string_view(":?>").find(line[last]) != std::string_view::npos;
  const bool bracket = line[last] == ')' || line[last] == ']';
  return question || (bracket && last + 1 < line.size());
}

}  // namespace

/// How long to wait for workers before there is something else to do, in milliseconds; -1: for
/// ever.
int WorkerOutput::wait_limit(Steady::time_point now) {
  constexpr auto kNever = Steady::time_point::max();
  auto first = kNever;
  const auto consider = [&](const std::optional<Steady::time_point>& at) {
    if (at) first = std::min(first, *at);
  };
  if (!paused_.empty()) {
    for (const LogWriter* writer : {&stdout_writer_, &stderr_writer_, &file_writer_})
      consider(writer->patience_ends());
  }
  for (const auto& [fd, stream] : streams_) {
    consider(stream->text.settles_at());
    if (stream->partial_since && *stream->partial_since + kShowUnfinishedAfter > now)
      consider(*stream->partial_since + kShowUnfinishedAfter);
  }
  for (Outlet* outlet : {&stdout_, &stderr_}) {
    if (const auto due = outlet->console.due(); due && !screen_paused_)
      consider(outlet->writer.idle() ? *due : std::max(*due, now + kBusyConsole));
  }
  if (first == kNever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - now);
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

/// What becomes visible, or final, because time has passed.
void WorkerOutput::look_at_unfinished(Steady::time_point now) {
  for (const auto& [fd, stream] : streams_) {
    const auto settles_at = stream->text.settles_at();
    const bool settles = settles_at && *settles_at <= now;
    if (!settles && !stream->partial_since) continue;
    if (settles) {
      Outlet& outlet = outlet_for(stream->source.standard_error);
      const std::lock_guard lock(mutex_);
      stream->text.settle(
          now, LineSink(*stream, outlet.console, outlet.bytes, filtered_, tail_of(*stream)));
    }
    show_unfinished(*stream, now);
  }
}

/// Gives the console what the stream may still change. A prompt goes out as it is.
void WorkerOutput::show_unfinished(OutputStream& stream, Steady::time_point now) {
  const std::string& partial = stream.text.partial();
  if (partial.empty()) {
    stream.partial_since.reset();
  } else if (!stream.partial_since) {
    stream.partial_since = now;
  }
  if (!stream.source.to_console) return;
  Outlet& outlet = outlet_for(stream.source.standard_error);
  const bool waited = stream.partial_since && now - *stream.partial_since >= kShowUnfinishedAfter;
  LineSink sink(stream, outlet.console, outlet.bytes, filtered_, nullptr);
  std::vector<std::string> rows;
  if (waited && stream.source.reads_input && stream.source.terminal && looks_like_prompt(partial)) {
    outlet.console.show(stream.id, sink.prefix, {}, now);
    stream.text.give_piece(sink);
    stream.partial_since.reset();
  } else if (partial.empty() || waited) {
    rows = stream.text.live(outlet.console.room(sink.prefix));
  }
  outlet.console.show(stream.id, sink.prefix, std::move(rows), now);
}

void WorkerOutput::draw(Steady::time_point now) {
  bool paused = false;
  {
    const std::lock_guard lock(mutex_);
    paused = paused_drawing_;
  }
  // Rows that are drawn for another width would wrap, and could not be taken off again.
  for (const Outlet* outlet : {&stdout_, &stderr_}) {
    const auto due = outlet->console.due();
    if (!outlet->console.draws() || !due || *due > now) continue;
    const TerminalSize size = drawing_size(outlet->fd);
    if (!outlet->console.has_size(size.columns, size.rows)) change_size();
  }
  for (Outlet* outlet : {&stdout_, &stderr_}) {
    if (paused && !screen_paused_) {
      outlet->console.end_line(outlet->bytes);
      put_out(*outlet);
    }
    // On a terminal that is behind, newer states replace those that wait.
    if (!paused && (!outlet->bytes.empty() || outlet->writer.idle()))
      outlet->console.draw(now, outlet->bytes);
  }
  if (paused == screen_paused_) return;
  screen_paused_ = paused;
  const std::lock_guard lock(mutex_);
  screen_left_ = paused;
  changed_.notify_all();
}

void WorkerOutput::take_size(OutputStream& stream) const {
  const int columns =
      follow_size(stream.source.fd.get(), outlet_for(stream.source.standard_error).fd,
                  text_columns(stream.source.prefix.plain(std::chrono::system_clock::now())));
  stream.text.set_terminal(columns);
}

void WorkerOutput::change_size() {
  const auto now = Steady::now();
  for (Outlet* outlet : {&stdout_, &stderr_}) {
    const TerminalSize size = drawing_size(outlet->fd);
    outlet->console.resize(size.columns, size.rows, now, outlet->bytes);
  }
  for (const auto& [fd, stream] : streams_) {
    if (stream->source.terminal) take_size(*stream);
    show_unfinished(*stream, now);
  }
  const std::lock_guard lock(mutex_);
  resized_ = false;
  changed_.notify_all();
}

}  // namespace ddprun::agent
