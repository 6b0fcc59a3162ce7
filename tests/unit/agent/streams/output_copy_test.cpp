// A worker's stream that goes on as it comes.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <future>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "agent/streams/worker_output.hpp"
#include "agent/terminal/stream_pair.hpp"
#include "tests/support/child.hpp"

using namespace ddprun::agent;
using namespace std::chrono_literals;

namespace {

std::chrono::steady_clock::time_point soon(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

/// Our stdout and stderr are pipes, and rank 0 has its stderr copied.
struct CopyPlace {
  CopyPlace() {
    StreamPair pair = make_stream_pipe().value();
    std::vector<OutputSource> sources(1);
    sources[0].fd = std::move(pair.ours);
    sources[0].standard_error = true;
    sources[0].verbatim = true;
    REQUIRE_FALSE(output.add(std::move(sources)));
    worker = std::move(pair.workers);
  }
  /// What is in our stderr's pipe now.
  [[nodiscard]] std::string shown() const {
    std::string text(1 << 20, '\0');
    const ssize_t n = ::read(err.ours.get(), text.data(), text.size());
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
  }

  StreamPair out = make_stream_pipe().value();
  StreamPair err = make_stream_pipe().value();
  WorkerOutput output{
      {.policy = LogPolicy::block, .stdout_fd = out.workers.get(), .stderr_fd = err.workers.get()}};
  ddprun::UniqueFd worker;
};

/// Throws, because it also runs in a thread, where Catch2's checks are not allowed.
void write_bytes(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n <= 0) throw std::system_error(errno, std::generic_category(), "write");
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

TEST_CASE("a copy passes every byte at once, and its lines are kept for the report") {
  CopyPlace work;
  std::string shown;
  const auto shows = [&](const std::string& text) {
    return ddprun::test::eventually([&] {
      shown += work.shown();
      return shown == text;
    });
  };
  write_bytes(work.worker.get(), "Traceback (most recent call last):\nValueErr");
  CHECK(shows("Traceback (most recent call last):\nValueErr"));
  REQUIRE(work.output.say("ddprun: ours"));
  CHECK(shows("Traceback (most recent call last):\nValueErr\nddprun: ours\n"));
  write_bytes(work.worker.get(), "or: bad lr\n 50%\r");
  CHECK(shows("Traceback (most recent call last):\nValueErr\nddprun: ours\nor: bad lr\n 50%\r"));
  REQUIRE(work.output.catch_up(soon(10s)));
  CHECK(work.output.signs(0, 0).message() == "ValueError: bad lr");
  CHECK(work.output.last_lines(0, 0) ==
        std::vector<std::string>{"Traceback (most recent call last):", "ValueError: bad lr"});
  CHECK(work.output.last_lines_in_sight(0, 0));
}

TEST_CASE("a copy waits for a reader that has stopped, and tells when all is out") {
  CopyPlace work;
  auto writer = std::async(std::launch::async, [&work] {
    write_bytes(work.worker.get(), std::string(3 << 20, 'x'));
    work.worker.reset();
  });
  std::size_t bytes = 0;
  // Not at once: until the pipe is full, there are moments in which all is out.
  REQUIRE(ddprun::test::eventually([&] { return !work.output.shown_by(soon(200ms)); }));
  CHECK(ddprun::test::eventually([&] {
    bytes += work.shown().size();
    return bytes == 3 << 20;
  }));
  writer.get();
  work.output.drain(soon(10s));
  CHECK(work.output.shown_by(soon(10s)));
  CHECK(work.output.dropped_bytes() == 0);
}

TEST_CASE("a copy without a reader ends, so that its worker finds out") {
  CopyPlace work;
  work.err.ours.reset();
  signal(SIGPIPE, SIG_IGN);
  CHECK(ddprun::test::eventually(
      [&] { return ::write(work.worker.get(), "x", 1) < 0 && errno == EPIPE; }));
}
