// One stream of a worker while it is read, and where its lines go. Of the thread that reads it.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/streams/log_buffer.hpp"
#include "agent/streams/outlets.hpp"
#include "agent/streams/output_source.hpp"
#include "agent/streams/stream_tail.hpp"
#include "agent/streams/stream_text.hpp"

namespace ddprun::agent {

inline constexpr int kPipeBytes = 64 * 1024;  ///< of a new pipe

/// One stream while it is read.
struct OutputStream {
  OutputSource source;
  StreamText text;
  std::optional<std::chrono::steady_clock::time_point> partial_since;  // it has an unfinished line
  std::uint64_t partial_seen = 0;                                      // which one
  int id = 0;  // tells streams apart on the console
  int pipe_bytes = kPipeBytes;
  bool enlarged = false;
  bool paused = false;  // its bytes have no place: it is not in epoll
  // So it was, and what was written before then is not all read: it says nothing of what its worker
  // does now.
  bool late = false;
  ssize_t last_read = 0;
  // As much of what comes next may have been in the pipe when the agent asked to catch up; 0: that
  // has been read.
  ssize_t behind = 0;
  LogBuffer filtered;  // lines that a filter found, on their way to the file

  /// After a read of so many bytes. True: they came so fast that reading must not rest; a pipe has
  /// more room then.
  bool took(ssize_t bytes) {
    last_read = bytes;
    // A short read is not the end of a terminal's bytes: the kernel may still be moving some.
    behind = bytes > 0 ? std::max<ssize_t>(0, behind - bytes) : 0;
    if (bytes < pipe_bytes && bytes < static_cast<ssize_t>(kLogBufferBytes)) late = false;
    if (bytes < pipe_bytes / 4) return false;
    if (!enlarged && !source.terminal) {
      // Where the user has used up the room that the kernel gives to pipes it stays as it is.
      enlarged = true;
      const int size = fcntl(source.fd.get(), F_SETPIPE_SZ, kBusyPipeBytes);
      if (size > 0) pipe_bytes = size;
    }
    return true;
  }

  /// Whether its bytes wait where they are.
  void set_paused(bool value) {
    if (source.unread && value != paused) {
      source.unread->now += value ? 1 : -1;
      if (value) ++source.unread->pauses;
    }
    paused = value;
  }

  /// What its worker has written so far is to be read. A flood ends too: a pipe or a terminal holds
  /// no more than this.
  void fall_behind() {
    const int size = source.terminal ? 0 : fcntl(source.fd.get(), F_GETPIPE_SZ);
    behind = std::max(size, kPipeBytes);
  }

  /// Some streams are only copied to a file.
  [[nodiscard]] bool wants_lines() const {
    return source.to_console || source.filtered_file || source.standard_error;
  }
};

/// By descriptor.
using OutputStreams = std::map<int, std::unique_ptr<OutputStream>>;

/// Where the lines of one stream go while some bytes of it are looked at.
struct LineSink {
  /// Null `kept`: its last lines are not wanted.
  LineSink(OutputStream& of, Outlet& outlet, StreamTail* kept)
      : stream(of), tail(kept), console(outlet.console), fold(outlet.fold) {
    OutputSource& source = of.source;
    const auto now = source.prefix.has_time() ? std::chrono::system_clock::now()
                                              : std::chrono::system_clock::time_point{};
    plain = source.prefix.plain(now);
    prefix = source.coloured ? source.prefix.coloured(now) : plain;
    if (source.shows_lines()) out = &outlet.bytes;
  }

  void lines(std::string_view block) {
    if (out != nullptr && stream.source.folds_as) {
      for (std::string_view rest = block; !rest.empty(); rest.remove_prefix(rest.find('\n') + 1))
        show(rest.substr(0, rest.find('\n')), LineEnding::newline);
    } else if (out != nullptr) {
      console.add_lines(stream.id, prefix, block, *out);
    }
    if (tail != nullptr) {
      tail->add_lines(block);
      note_shown();
    }
    if (!stream.source.filtered_file) return;
    while (!block.empty()) {
      const std::size_t end = block.find('\n');
      filter(block.substr(0, end));
      block.remove_prefix(end + 1);
    }
  }

  void line(std::string_view text, LineEnding ending) {
    if (out != nullptr) show(text, ending);
    if (stream.source.filtered_file) filter(text);
    if (tail == nullptr || text.empty()) return;
    tail->add(text);
    note_shown();
  }

  void show(std::string_view text, LineEnding ending) {
    const auto now = std::chrono::steady_clock::now();
    const auto rank = stream.source.folds_as;
    if (rank && ending == LineEnding::newline && !console.is_within_line(stream.id)) {
      if (console.repeats_state(stream.id, text)) return;
      fold.add(*rank, without_own_rank(prefix, text), now);
      return console.add_folded(fold, stream.source.coloured, now, *out);
    }
    // A piece of a line, which lines of this rank must not follow that came before.
    if (rank) fold.release(*rank);
    if (rank) console.add_folded(fold, stream.source.coloured, now, *out);
    console.add(stream.id, prefix, text, ending, *out);
  }

  void note_shown() const {
    if (out == nullptr) return;
    const auto rank = stream.source.folds_as;
    tail->shown_at = console.rows_written() + (rank ? fold.held_until(*rank) : 0);
    tail->prefix_columns = text_columns(plain);
  }

  /// A progress bar is no last line, but a worker that moves it goes on.
  void redrawn() {
    if (tail != nullptr) tail->other_output();
  }

  void filter(std::string_view text) {
    for (const std::string& wanted : *stream.source.filters) {
      if (text.find(wanted) == std::string_view::npos) continue;
      stream.filtered.append(plain);
      stream.filtered.append(text);
      stream.filtered.push_back('\n');
      return;
    }
  }

  OutputStream& stream;
  StreamTail* tail;
  Console& console;
  LineFold& fold;
  LogBuffer* out = nullptr;
  std::string_view plain;
  std::string_view prefix;
};

}  // namespace ddprun::agent
