#include "agent/streams/unfinished_lines.hpp"

#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "agent/terminal/terminal_size.hpp"
#include "agent/terminal/terminal_text.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

namespace {

constexpr auto kShowUnfinishedAfter = 100ms;  // the rest of a line is mostly on its way
constexpr auto kBusyConsole = 200ms;          // before bars are tried again on a slow terminal
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

std::optional<Steady::time_point> UnfinishedLines::written_at(const OutputStream& stream) {
  const Console& console = outlets_.of(stream.source.standard_error).console;
  if (!stream.partial_since || console.draws() || bar_interval_.count() == 0) return std::nullopt;
  return *stream.partial_since + bar_interval_;
}

std::optional<Steady::time_point> UnfinishedLines::due(Steady::time_point now) {
  std::optional<Steady::time_point> first;
  const auto consider = [&](const std::optional<Steady::time_point>& at) {
    if (at && (!first || *at < *first)) first = at;
  };
  for (const auto& [fd, stream] : streams_) {
    consider(stream->text.settles_at());
    if (!stream->partial_since) continue;
    const auto shown_at = *stream->partial_since + kShowUnfinishedAfter;
    if (shown_at > now) consider(shown_at);
    if (stream->source.shows_lines()) consider(written_at(*stream));
  }
  for (Outlet* outlet : outlets_.both()) {
    if (const auto due = outlet->console.due(); due && !is_paused_)
      consider(outlet->writer.idle() ? *due : std::max(*due, now + kBusyConsole));
  }
  return first;
}

void UnfinishedLines::look(Steady::time_point now) {
  for (const auto& [fd, stream] : streams_) {
    const auto settles_at = stream->text.settles_at();
    const bool settles = settles_at && *settles_at <= now;
    if (!settles && !stream->partial_since) continue;
    if (settles) {
      const StreamTails::Locked kept = tails_.of(stream->source);
      Outlet& outlet = outlets_.of(stream->source.standard_error);
      stream->text.settle(now, LineSink(*stream, outlet, kept.tail));
    }
    show(*stream, now);
    hand_over(outlets_.files(), stream->source.filtered_file, stream->filtered);
  }
}

void UnfinishedLines::show(OutputStream& stream, Steady::time_point now) {
  const std::string& partial = stream.text.partial();
  if (partial.empty()) {
    stream.partial_since.reset();
  } else if (!stream.partial_since || stream.partial_seen != stream.text.partials()) {
    stream.partial_since = now;
    stream.partial_seen = stream.text.partials();
  }
  if (!stream.source.shows_lines()) return;
  Outlet& outlet = outlets_.of(stream.source.standard_error);
  const bool waited = stream.partial_since && now - *stream.partial_since >= kShowUnfinishedAfter;
  LineSink sink(stream, outlet, nullptr);
  const bool prompt =
      waited && stream.source.reads_input && stream.source.terminal && looks_like_prompt(partial);
  // Where it can't be drawn, what there is of a line is written in its place, not as a state.
  const auto written = written_at(stream);
  if (prompt || (written && now >= *written)) {
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

bool UnfinishedLines::is_no_prompt(std::string_view bytes) {
  const auto at = bytes.find('\r');
  const bool redraws = at != std::string_view::npos && !bytes.substr(at).starts_with("\r\n");
  termios terminal{};
  return redraws && tcgetattr(STDIN_FILENO, &terminal) == 0 && (terminal.c_lflag & ICANON) != 0;
}

void UnfinishedLines::draw(Steady::time_point now, bool paused) {
  // Rows that are drawn for another width would wrap, and could not be taken off again.
  for (Outlet* outlet : outlets_.both()) {
    const auto due = outlet->console.due();
    if (!outlet->console.draws() || !due || *due > now) continue;
    const TerminalSize size = outlet->size_to_draw();
    if (!outlet->console.has_size(size.columns, size.rows)) resize(now);
    if (in_background(outlet->fd)) outlet->console.rest_until(now + kBackgroundRest);
  }
  make_rows(now);
  for (Outlet* outlet : outlets_.both()) {
    if (paused && !is_paused_) {
      outlet->console.leave(outlet->bytes);
      outlet->put_out();
    }
    // On a terminal that is behind, newer states replace those that wait.
    if (!paused && (!outlet->bytes.empty() || outlet->writer.idle()))
      outlet->console.draw(now, outlet->bytes);
  }
  is_paused_ = paused;
}

/// Gives the console the rows that are due now and that workers have drawn since its last ones.
void UnfinishedLines::make_rows(Steady::time_point now) {
  for (const auto& [fd, stream] : streams_) {
    const Console& console = outlets_.of(stream->source.standard_error).console;
    if (console.lacks_rows(stream->id) && console.wants_rows(stream->id, now)) show(*stream, now);
  }
}

void UnfinishedLines::take_size(OutputStream& stream) {
  const int columns =
      follow_size(stream.source.fd.get(), outlets_.of(stream.source.standard_error).fd,
                  text_columns(stream.source.prefix.plain(std::chrono::system_clock::now())));
  stream.text.set_terminal(columns);
}

void UnfinishedLines::resize(Steady::time_point now) {
  for (Outlet* outlet : outlets_.both()) {
    const TerminalSize size = outlet->size_to_draw();
    outlet->console.resize(size.columns, size.rows, now, outlet->bytes);
  }
  for (const auto& [fd, stream] : streams_) {
    if (stream->source.terminal) take_size(*stream);
    show(*stream, now);
  }
}

}  // namespace ddprun::agent
