// The side of WorkerOutput that shows what is not finished: prompts, progress bars. Runs on its
// thread.
#include <termios.h>

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
constexpr auto kWatchAgain = 100ms;           // after the system refused to watch a stream
constexpr auto kBackgroundRest = 1s;          // before it is asked whether the shell has it still

/// Whether a line that stops here waits for the user to type: `(Pdb) `, `Go on? [y/n] `, `Name:`.
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
    if (unwatched_) consider(now + kWatchAgain);
  }
  for (const auto& [fd, stream] : streams_) {
    consider(stream->text.settles_at());
    if (!stream->partial_since) continue;
    const auto shown_at = *stream->partial_since + kShowUnfinishedAfter;
    if (shown_at > now) consider(shown_at);
    const Outlet& outlet = outlet_for(stream->source.standard_error);
    if (stream->source.shows_lines() && !outlet.console.draws() && bar_interval_.count() > 0)
      consider(*stream->partial_since + bar_interval_);
  }
  for (Outlet* outlet : {&stdout_, &stderr_}) {
    consider(outlet->fold.due());
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
          now, LineSink(*stream, outlet.console, outlet.fold, outlet.bytes, tail_of(*stream)));
    }
    show_unfinished(*stream, now);
    hand_over(file_writer_, stream->source.filtered_file, stream->filtered);
  }
}

/// Lines that have waited long enough for the same of other ranks.
void WorkerOutput::show_folded(Steady::time_point now) {
  for (Outlet* outlet : {&stdout_, &stderr_}) {
    if (!folds_) outlet->fold.release_all();
    outlet->console.add_folded(outlet->fold, outlet->coloured, now, outlet->bytes);
  }
}

/// Before the end of the writers: what is held back would be lost, and not be counted.
void WorkerOutput::end_fold() {
  folds_ = false;
  show_folded(Steady::now());
  put_out(stdout_);
  put_out(stderr_);
  const std::lock_guard lock(mutex_);
  note_unfinished();
  fold_over_ = true;
  changed_.notify_all();
}

/// Gives the console what the stream may still change. A prompt goes out as it is.
void WorkerOutput::show_unfinished(OutputStream& stream, Steady::time_point now) {
  const std::string& partial = stream.text.partial();
  if (partial.empty()) {
    stream.partial_since.reset();
  } else if (!stream.partial_since || stream.partial_seen != stream.text.partials()) {
    stream.partial_since = now;
    stream.partial_seen = stream.text.partials();
  }
  if (!stream.source.shows_lines()) return;
  Outlet& outlet = outlet_for(stream.source.standard_error);
  const bool waited = stream.partial_since && now - *stream.partial_since >= kShowUnfinishedAfter;
  LineSink sink(stream, outlet.console, outlet.fold, outlet.bytes, nullptr);
  const bool prompt =
      waited && stream.source.reads_input && stream.source.terminal && looks_like_prompt(partial);
  // Where it can't be drawn, what there is of a line is written in its place, not as a state.
  const bool overdue = stream.partial_since && !outlet.console.draws() &&
                       bar_interval_.count() > 0 && now - *stream.partial_since >= bar_interval_;
  if (prompt || overdue) {
    outlet.console.show(stream.id, sink.prefix, {}, now);
    stream.text.give_piece(sink, prompt);
    stream.partial_since.reset();
  }
  if (partial.empty() && stream.text.draws() && !outlet.console.wants_rows(stream.id, now))
    return outlet.console.change(stream.id, now);
  std::vector<std::string> rows;
  if (stream.text.partial().empty() || (waited && outlet.console.draws()))
    rows = stream.text.live(outlet.console.room(sink.prefix));
  outlet.console.show(stream.id, sink.prefix, std::move(rows), now);
}

/// The program draws over what it has printed, so it did not wait for an answer there. An editor of
/// lines does so, too, and has switched off the terminal's own.
bool WorkerOutput::is_no_prompt(std::string_view bytes) {
  const auto at = bytes.find('\r');
  const bool redraws = at != std::string_view::npos && !bytes.substr(at).starts_with("\r\n");
  termios terminal{};
  return redraws && tcgetattr(STDIN_FILENO, &terminal) == 0 && (terminal.c_lflag & ICANON) != 0;
}

void WorkerOutput::draw(Steady::time_point now) {
  bool paused = false;
  {
    const std::lock_guard lock(mutex_);
    paused = paused_drawing_;
  }
  // Rows that are drawn for another width would wrap, and could not be taken off again.
  for (Outlet* outlet : {&stdout_, &stderr_}) {
    const auto due = outlet->console.due();
    if (!outlet->console.draws() || !due || *due > now) continue;
    const TerminalSize size = size_to_draw(*outlet);
    if (!outlet->console.has_size(size.columns, size.rows)) change_size();
    if (in_background(outlet->fd)) outlet->console.rest_until(now + kBackgroundRest);
  }
  make_rows(now);
  for (Outlet* outlet : {&stdout_, &stderr_}) {
    if (paused && !screen_paused_) {
      outlet->console.leave(outlet->bytes);
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
  note_unfinished();
  changed_.notify_all();
}

/// Gives the console the rows that are due now and that workers have drawn since its last ones.
void WorkerOutput::make_rows(Steady::time_point now) {
  for (const auto& [fd, stream] : streams_) {
    const Console& console = outlet_for(stream->source.standard_error).console;
    if (console.lacks_rows(stream->id) && console.wants_rows(stream->id, now))
      show_unfinished(*stream, now);
  }
}

TerminalSize WorkerOutput::size_to_draw(const Outlet& outlet) const {
  const int other = &outlet == &stdout_ ? stderr_.fd : stdout_.fd;
  return is_ours_alone(outlet.fd, other) ? drawing_size(outlet.fd) : TerminalSize{};
}

void WorkerOutput::take_size(OutputStream& stream) const {
  const int columns =
      follow_size(stream.source.fd.get(), outlet_for(stream.source.standard_error).fd,
                  text_columns(stream.source.prefix.plain(std::chrono::system_clock::now())));
  stream.text.set_terminal(columns);
}

void WorkerOutput::change_size() {
  std::uint64_t wanted = 0;
  {  // a change that comes while we measure is another one
    const std::lock_guard lock(mutex_);
    wanted = resizes_wanted_;
  }
  const auto now = Steady::now();
  for (Outlet* outlet : {&stdout_, &stderr_}) {
    const TerminalSize size = size_to_draw(*outlet);
    outlet->console.resize(size.columns, size.rows, now, outlet->bytes);
  }
  for (const auto& [fd, stream] : streams_) {
    if (stream->source.terminal) take_size(*stream);
    show_unfinished(*stream, now);
  }
  const std::lock_guard lock(mutex_);
  resizes_done_ = wanted;
  changed_.notify_all();
}

}  // namespace ddprun::agent
