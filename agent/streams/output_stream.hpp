// One stream of a worker while it is read, and where its lines go. Internal to worker_output.cpp.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>

#include "agent/streams/console.hpp"
#include "agent/streams/line_assembler.hpp"
#include "agent/streams/log_buffer.hpp"
#include "agent/streams/output_source.hpp"
#include "agent/streams/stream_tail.hpp"

namespace ddprun::agent {

inline constexpr int kPipeBytes = 64 * 1024;  ///< of a new pipe

/// One stream while it is read.
struct OutputStream {
  OutputSource source;
  LineAssembler lines;
  int id = 0;  // tells streams apart on the console
  int pipe_bytes = kPipeBytes;
  bool enlarged = false;
  bool paused = false;  // its bytes have no place: it is not in epoll
  ssize_t last_read = 0;

  /// Some streams are only copied to a file.
  [[nodiscard]] bool wants_lines() const {
    return source.to_console || source.filtered_file || source.standard_error;
  }
};

/// Where the lines of one stream go while some bytes of it are looked at.
struct LineSink {
  /// `shown` gets what the console shall show of it; null `kept`: nobody wants its last lines.
  LineSink(OutputStream& of, Console& merged, LogBuffer& shown, LogBuffer& found, StreamTail* kept)
      : stream(of), tail(kept), console(merged), filtered(found) {
    OutputSource& source = of.source;
    const auto now = source.prefix.has_time() ? std::chrono::system_clock::now()
                                              : std::chrono::system_clock::time_point{};
    plain = source.prefix.plain(now);
    prefix = source.coloured ? source.prefix.coloured(now) : plain;
    if (source.to_console) out = &shown;
  }

  void lines(std::string_view block) {
    if (out != nullptr) console.add_lines(stream.id, prefix, block, *out);
    if (tail != nullptr) tail->add_lines(block);
    if (!stream.source.filtered_file) return;
    while (!block.empty()) {
      const std::size_t end = block.find('\n');
      filter(block.substr(0, end));
      block.remove_prefix(end + 1);
    }
  }

  void line(std::string_view text, LineEnding ending) {
    if (out != nullptr) console.add(stream.id, prefix, text, ending, *out);
    if (stream.source.filtered_file) filter(text);
    if (tail != nullptr && ending != LineEnding::carriage_return && !text.empty()) tail->add(text);
  }

  void filter(std::string_view text) {
    for (const std::string& wanted : *stream.source.filters) {
      if (text.find(wanted) == std::string_view::npos) continue;
      filtered.append(plain);
      filtered.append(text);
      filtered.push_back('\n');
      return;
    }
  }

  OutputStream& stream;
  StreamTail* tail;
  Console& console;
  LogBuffer& filtered;
  LogBuffer* out = nullptr;
  std::string_view plain;
  std::string_view prefix;
};

}  // namespace ddprun::agent
