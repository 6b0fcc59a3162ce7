#include "agent/streams/worker_output.hpp"

#include <fcntl.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "agent/terminal/stream_pair.hpp"
#include "tests/support/child.hpp"
#include "tests/support/no_threads.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun::agent;
using namespace std::chrono_literals;

namespace {

std::chrono::steady_clock::time_point within(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

/// A console of two pipes, workers that are threads, files for what they write.
struct Workplace {
  explicit Workplace(LogPolicy policy, std::chrono::milliseconds bar_interval = 10s)
      : output({.policy = policy,
                .bar_interval = bar_interval,
                .stdout_fd = out.workers.get(),
                .stderr_fd = err.workers.get()}) {}

  /// A stream; gives the worker's end.
  ddprun::UniqueFd stream(int rank, bool standard_error = false) {
    StreamPair pair = make_stream_pipe().value();
    add(rank, standard_error, std::move(pair.ours), false);
    return std::move(pair.workers);
  }
  void add(int rank, bool standard_error, ddprun::UniqueFd ours, bool terminal) {
    OutputSource source;
    source.fd = std::move(ours);
    source.terminal = terminal;
    source.local_rank = rank;
    source.standard_error = standard_error;
    source.prefix = LinePrefix("[${rank}] ", {.rank = rank});
    source.file = LogFile::open(path(rank), {}).value();
    std::vector<OutputSource> sources;
    sources.push_back(std::move(source));
    REQUIRE_FALSE(output.add(std::move(sources)));
  }
  [[nodiscard]] std::string path(int rank) const {
    return (folder / std::to_string(rank)).string();
  }
  [[nodiscard]] std::string file(int rank) const {
    std::ifstream stream(path(rank));
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  /// Its size: for a file that is too large to be read again and again.
  [[nodiscard]] std::size_t file_bytes(int rank) const {
    return static_cast<std::size_t>(std::filesystem::file_size(path(rank)));
  }
  /// What is in the console's pipe now.
  std::string shown() const { return content_of(out); }
  static std::string content_of(const StreamPair& pipe) {
    std::string text(1 << 20, '\0');
    const ssize_t n = ::read(pipe.ours.get(), text.data(), text.size());
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
  }

  ddprun::test::TempDir folder;
  StreamPair out = make_stream_pipe().value();
  StreamPair err = make_stream_pipe().value();
  WorkerOutput output;
};

/// Throws where the stream is gone: it also runs in threads, where Catch2's checks are not allowed;
/// the future of such a thread hands the exception to the test.
void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n <= 0) throw std::system_error(errno, std::generic_category(), "write");
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

TEST_CASE("without a thread that could read them streams are refused and nothing is waited for") {
  const ddprun::test::NoThreads none;
  Workplace work(LogPolicy::drop);
  StreamPair pair = make_stream_pipe().value();
  std::vector<OutputSource> sources(1);
  sources[0].fd = std::move(pair.ours);
  CHECK(work.output.add(std::move(sources)).value() == EAGAIN);
  CHECK_FALSE(work.output.say("a line"));
  const auto begin = std::chrono::steady_clock::now();
  work.output.drain(within(10s));
  work.output.flush(within(10s));
  CHECK(std::chrono::steady_clock::now() - begin < 9s);
}

TEST_CASE("after catching up every exception written before is known, from any number of workers") {
  constexpr int kWorkers = 100;  // more than the thread reads at once
  Workplace work(LogPolicy::drop);
  std::vector<ddprun::UniqueFd> streams;
  for (int rank = 0; rank < kWorkers; ++rank) streams.push_back(work.stream(rank, true));
  for (int again = 0; again < 20; ++again) {
    const std::string message = "ValueError: attempt " + std::to_string(again);
    for (const auto& stream : streams) write_all(stream.get(), message + "\n");
    work.output.catch_up(within(10s));
    const auto now = std::chrono::steady_clock::now();
    for (int rank = 0; rank < kWorkers; ++rank) {
      const LineSigns signs = work.output.signs(0, rank);
      REQUIRE(signs.message() == message);
      CHECK(signs.first_at().value() <= now);
    }
  }
}

TEST_CASE(
    "after catching up all that a terminal or pipe holds is read, though one read takes less") {
  for (const bool terminal : {true, false}) {
    CAPTURE(terminal);
    Workplace work(LogPolicy::drop);
    StreamPair pair =
        (terminal ? make_pseudo_terminal(work.err.workers.get(), 0) : make_stream_pipe()).value();
    if (!terminal) REQUIRE(fcntl(pair.ours.get(), F_SETPIPE_SZ, 1 << 20) > 0);
    const int fd = pair.workers.get();
    const auto line = [](int number) { return "ValueError: " + std::to_string(number) + "\n"; };
    REQUIRE(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    int number = 10'000'000;
    while (::write(fd, line(number).data(), line(number).size()) == 21) ++number;
    REQUIRE(fcntl(fd, F_SETFL, 0) == 0);
    work.add(0, true, std::move(pair.ours), terminal);
    work.output.catch_up(within(10s));
    const auto read = [&] {
      const auto message = work.output.signs(0, 0).message();
      return message.empty() ? 0 : std::stoi(message.substr(12));
    };
    CHECK(read() == number - 1);
    for (int i = 0; i < 64 * 1024 / 21; ++i) write_all(fd, line(++number));
    work.output.catch_up(within(10s));
    CHECK(read() == number);
  }
}

TEST_CASE("a flood of one worker does not keep ddprun from catching up") {
  for (const LogPolicy policy : {LogPolicy::drop, LogPolicy::block}) {
    Workplace work(policy);
    const ddprun::UniqueFd error = work.stream(1, true);
    std::atomic<bool> enough{false};
    auto flood = std::async(std::launch::async, [&, fd = work.stream(0)] {
      const std::string text = std::string(4095, 'x') + "\n";
      while (!enough) write_all(fd.get(), text);
    });
    // With `block` its stream is paused now: its bytes have no place.
    CHECK(ddprun::test::eventually([&] {
      return work.output.dropped_bytes() > 0 ||
             (policy == LogPolicy::block && work.file_bytes(0) > kLogQueueBytesMax - (1 << 20));
    }));
    for (int again = 0; again < 20; ++again) {
      const std::string message = "ValueError: attempt " + std::to_string(again);
      write_all(error.get(), message + "\n");
      CHECK(work.output.catch_up(within(10s)));
      CHECK(work.output.signs(0, 1).message() == message);
    }
    enough = true;
    work.output.drain(within(0ms));  // from now on no worker waits
    flood.get();
  }
}

TEST_CASE("streams of which the system cannot watch one are all refused") {
  Workplace work(LogPolicy::drop);
  StreamPair pair = make_stream_pipe().value();
  std::vector<OutputSource> sources(2);
  sources[0].fd = std::move(pair.ours);
  sources[1].fd = ddprun::UniqueFd(open(work.folder.path().c_str(), O_RDONLY | O_CLOEXEC));
  CHECK(work.output.add(std::move(sources)).value() == EPERM);
  CHECK(work.output.say("a line"));
  work.output.flush(within(10s));
  CHECK(work.content_of(work.err) == "a line\n");
}

TEST_CASE("lines of many workers come whole to the console and to their files") {
  Workplace work(LogPolicy::drop);
  constexpr int kWorkers = 4;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "line " + std::to_string(i) + "\n";
  std::vector<std::future<void>> workers;
  for (int rank = 0; rank < kWorkers; ++rank) {
    workers.push_back(std::async(std::launch::async, [&text, rank, fd = work.stream(rank)] {
      const auto step = static_cast<std::size_t>(1000 + 777 * rank);
      for (std::size_t at = 0; at < text.size(); at += step)
        write_all(fd.get(), std::string_view(text).substr(at, step));
    }));
  }
  std::string shown;
  while (shown.size() < kWorkers * (text.size() + 20'000 * 4)) {
    fcntl(work.out.ours.get(), F_SETFL, 0);
    shown += work.shown();
  }
  for (auto& worker : workers) worker.get();
  workers.clear();  // and their ends of the pipes
  work.output.drain(within(10s));
  work.output.flush(within(10s));
  CHECK(work.output.dropped_bytes() == 0);
  std::vector<std::string> by_rank(kWorkers);
  for (std::string_view rest = shown; !rest.empty(); rest.remove_prefix(rest.find('\n') + 1)) {
    REQUIRE(rest.front() == '[');
    by_rank.at(static_cast<std::size_t>(rest[1] - '0')) += rest.substr(4, rest.find('\n') - 3);
  }
  for (int rank = 0; rank < kWorkers; ++rank) {
    CHECK(by_rank[static_cast<std::size_t>(rank)] == text);
    CHECK(work.file(rank) == text);
  }
}

TEST_CASE("a stopped reader costs no worker its time and no file a byte, and loss is exact") {
  for (const LogPolicy policy : {LogPolicy::drop, LogPolicy::block}) {
    Workplace work(policy);
    const std::string line = std::string(99, 'x') + "\n";
    // With `block` the worker would wait for good; what fits between it and the console goes.
    const int lines = policy == LogPolicy::drop ? 200'000 : 80'000;
    std::string text;
    for (int i = 0; i < lines; ++i) text += line;
    {
      const ddprun::UniqueFd fd = work.stream(0);
      write_all(fd.get(), text);
    }
    work.output.drain(within(policy == LogPolicy::drop ? 10s : 50ms));
    work.output.flush(within(50ms));
    const auto produced = static_cast<std::size_t>(lines) * (line.size() + 4);
    CHECK(work.shown().size() + work.output.dropped_bytes() == produced);
    CHECK(work.file(0) == text);
  }
}

TEST_CASE("stderr goes on while stdout is unread, and the end of a round is not blind") {
  for (const LogPolicy policy : {LogPolicy::drop, LogPolicy::block}) {
    Workplace work(policy);
    const std::string line = std::string(99, 'x') + "\n";
    constexpr std::size_t kLines = 300'000;
    ddprun::UniqueFd error = work.stream(1, true);
    auto flood = std::async(std::launch::async, [&, fd = work.stream(0)] {
      for (std::size_t i = 0; i < kLines; ++i) write_all(fd.get(), line);
    });
    // More than queue and pipe hold, so the writer waits, or bytes are dropped.
    CHECK(ddprun::test::eventually([&] {
      return work.output.dropped_bytes() > 0 ||
             (policy == LogPolicy::block && work.file_bytes(0) > kLogQueueBytesMax - (1 << 20));
    }));
    write_all(error.get(), "ValueError: x\n");
    std::string told;
    CHECK(ddprun::test::eventually([&] {
      told += Workplace::content_of(work.err);
      return told == "[1] ValueError: x\n";
    }));
    CHECK(work.output.signs(0, 1).message() == "ValueError: x");
    error.reset();
    work.output.drain(within(0ms));  // and from now on no worker waits
    flood.get();
    flood = {};  // and its end of the pipe
    work.output.drain(within(10s));
    work.output.flush(within(50ms));
    CHECK(work.shown().size() + work.output.dropped_bytes() == kLines * (line.size() + 4));
    CHECK(work.file_bytes(0) == kLines * line.size());
  }
}

TEST_CASE("workers that wait for one reader have their turns") {
  Workplace work(LogPolicy::block);
  constexpr int kWorkers = 6;
  std::vector<std::future<void>> workers;
  const std::string line = std::string(99, 'x') + "\n";
  for (int rank = 0; rank < kWorkers; ++rank) {
    workers.push_back(std::async(std::launch::async, [&, fd = work.stream(rank)] {
      for (int i = 0; i < 100'000; ++i) write_all(fd.get(), line);
    }));
  }
  // Half of what they print.
  std::size_t shown = 0;
  while (shown < std::size_t{kWorkers} * 50'000 * 104) {
    fcntl(work.out.ours.get(), F_SETFL, 0);
    shown += work.shown().size();
  }
  for (int rank = 0; rank < kWorkers; ++rank) {
    CAPTURE(rank);
    CHECK(std::filesystem::file_size(work.path(rank)) > 1'000'000);
  }
  work.output.drain(within(0ms));
  for (auto& worker : workers) worker.get();
}

TEST_CASE("ddprun's own lines stand between the workers' lines") {
  Workplace work(LogPolicy::drop);
  CHECK(work.output.say("ddprun: here"));
  work.output.flush(within(10s));
  std::string text(100, '\0');
  const ssize_t n = ::read(work.err.ours.get(), text.data(), text.size());
  CHECK(text.substr(0, static_cast<std::size_t>(std::max<ssize_t>(n, 0))) == "ddprun: here\n");
}

TEST_CASE("the last lines of stderr are known, whatever bytes they are") {
  Workplace work(LogPolicy::drop);
  const std::string odd("a\0b\xff\xfe", 5);
  {
    const ddprun::UniqueFd fd = work.stream(1, true);
    write_all(fd.get(), "first\n" + odd + "\n" + std::string(1'000'000, 'y') + "\nValueError: x");
  }
  work.output.drain(within(10s));
  const auto lines = work.output.last_lines(0, 1);
  REQUIRE(lines.size() >= 3);
  CHECK(lines[0] == "first");
  CHECK(lines[1] == odd);
  CHECK(lines.back() == "ValueError: x");
  CHECK(work.output.signs(0, 1).message() == "ValueError: x");
  work.output.flush(within(10s));
  CHECK(work.file(1).size() == 6 + 6 + 1'000'001 + 13);
}

TEST_CASE("the last lines of stderr are in sight in a pipe until many others follow") {
  for (const int others : {0, 20, 200}) {
    CAPTURE(others);
    Workplace work(LogPolicy::drop);
    const ddprun::UniqueFd failed = work.stream(1, true);
    const ddprun::UniqueFd other = work.stream(2, true);
    write_all(failed.get(), "Traceback (most recent call last):\nValueError: x\n");
    work.output.catch_up(within(10s));
    for (int i = 0; i < others; ++i) write_all(other.get(), "a line\n");
    work.output.catch_up(within(10s));
    work.output.flush(within(10s));
    CHECK(work.output.last_lines_in_sight(0, 1) == (others < 60));
  }
}

TEST_CASE("a worker that waits for our reader counts as unread for as long as it does") {
  Workplace work(LogPolicy::block);
  const auto unread = std::make_shared<UnreadStreams>();
  StreamPair pair = make_stream_pipe().value();
  OutputSource source;
  source.fd = std::move(pair.ours);
  source.unread = unread;
  std::vector<OutputSource> sources;
  sources.push_back(std::move(source));
  REQUIRE_FALSE(work.output.add(std::move(sources)));
  auto flood = std::async(std::launch::async, [fd = std::move(pair.workers)] {
    const std::string line = std::string(99, 'x') + "\n";
    for (int i = 0; i < 200'000; ++i) write_all(fd.get(), line);
  });
  CHECK(ddprun::test::eventually([&] { return unread->now == 1; }));
  CHECK(unread->pauses > 0);
  work.output.drain(within(0ms));
  flood.get();
  CHECK(ddprun::test::eventually([&] { return unread->now == 0; }));
}

TEST_CASE("a line that waits for the same of other ranks is not lost at the end") {
  Workplace work(LogPolicy::drop);
  std::vector<OutputSource> sources(2);
  std::vector<ddprun::UniqueFd> workers;
  for (int rank = 0; rank < 2; ++rank) {
    StreamPair pair = make_stream_pipe().value();
    auto& source = sources[static_cast<std::size_t>(rank)];
    source.fd = std::move(pair.ours);
    source.local_rank = rank;
    source.folds_as = rank;
    source.prefix = LinePrefix("[${rank}] ", {.rank = rank});
    workers.push_back(std::move(pair.workers));
  }
  REQUIRE_FALSE(work.output.add(std::move(sources)));
  write_all(workers[0].get(), "the last words\n");
  REQUIRE(work.output.catch_up(within(10s)));
  work.output.flush(within(10s));  // while the streams are open
  CHECK_THAT(work.shown(), Catch::Contains("the last words\n"));
  CHECK(work.output.dropped_bytes() == 0);
}

TEST_CASE("a line that takes long is written in pieces, each once") {
  Workplace place(LogPolicy::drop, 20ms);
  auto worker = place.stream(0);
  write_all(worker.get(), "epoch 0 ...");
  std::string shown;
  REQUIRE(ddprun::test::eventually([&] {
    shown += place.shown();
    return shown.find("...") != std::string::npos;
  }));
  write_all(worker.get(), " done\nepoch 1\n");
  worker.reset();
  place.output.drain(within(10s));
  place.output.flush(within(10s));
  shown += place.shown();
  CHECK(shown == "[0] epoch 0 ... done\n[0] epoch 1\n");
}
