#include "agent/streams/log_writer.hpp"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <condition_variable>
#include <fstream>
#include <future>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>

#include "agent/streams/stream_pair.hpp"
#include "agent/streams/worker_output.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun::agent;
using namespace std::chrono_literals;
using Kind = LogWriterSettings::Kind;

namespace {

std::chrono::steady_clock::time_point in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

/// Takes bytes only while it is open, and then so many at a time.
class Gate final : public LogOutput {
 public:
  explicit Gate(bool open, std::size_t at_once = 1'000'000) : open_(open), at_once_(at_once) {}
  Taken take(std::string_view bytes) override {
    const std::lock_guard lock(mutex_);
    if (!open_) return {};
    bytes = bytes.substr(0, at_once_);
    text_ += bytes;
    return {.written = bytes.size()};
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    waits_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_until_somebody_waits() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waits_; });
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_;
  bool waits_ = false;
  std::size_t at_once_;
  std::string text_;
};

LogBuffer bytes(std::size_t size, char c = 'x') { return LogBuffer(std::string(size, c)); }

/// What takes away all it is given, in a way.
class Sink final : public LogOutput {
 public:
  explicit Sink(bool lost) : lost_(lost) {}
  Taken take(std::string_view text) override {
    if (lost_) return {.lost = text.size()};
    return {.unwanted = text.size()};
  }
  void wait() override {}

 private:
  bool lost_;
};

}  // namespace

TEST_CASE("a console that is stuck loses what comes beyond its queue, counted and said") {
  const auto gate = std::make_shared<Gate>(false);
  LogWriter writer({.kind = Kind::console, .queue_bytes_max = 100, .patience = 1ms});
  writer.write(gate, bytes(60, 'a'));
  gate->wait_until_somebody_waits();
  writer.write(gate, bytes(40, 'b'));
  writer.write(gate, bytes(10, 'c'));
  writer.write(gate, bytes(7, 'd'));
  CHECK(writer.dropped_bytes() == 17);
  gate->open();
  CHECK(writer.finish(in(10s)));
  writer.write(gate, bytes(5, 'e'));
  CHECK(writer.finish(in(10s)));
  CHECK(writer.dropped_bytes() == 17);
  CHECK(gate->text() ==
        std::string(60, 'a') + std::string(40, 'b') +
            "\nddprun: dropped 17 bytes of output here: nobody read it fast enough\neeeee");
}

TEST_CASE("who prefers to wait loses nothing") {
  const auto gate = std::make_shared<Gate>(false);
  LogWriter writer({.policy = LogPolicy::block, .queue_bytes_max = 100, .patience = 0ms});
  auto all = std::async(std::launch::async, [&] {
    for (int i = 0; i < 50; ++i) writer.write(gate, bytes(30));
  });
  gate->wait_until_somebody_waits();
  gate->open();
  all.get();
  CHECK(writer.finish(in(10s)));
  CHECK(gate->text().size() == 1500);
  CHECK(writer.dropped_bytes() == 0);
}

TEST_CASE("a disk that takes a little is waited for") {
  const auto gate = std::make_shared<Gate>(true, 3);
  LogWriter writer({.kind = Kind::files, .queue_bytes_max = 50, .patience = 5s});
  for (int i = 0; i < 100; ++i) writer.write(gate, bytes(40));
  CHECK(writer.finish(in(10s)));
  CHECK(gate->text().size() == 4000);
  CHECK(writer.dropped_bytes() == 0);
}

TEST_CASE("giving up frees who waits, and what was not written is dropped to the byte") {
  for (const LogPolicy policy : {LogPolicy::drop, LogPolicy::block}) {
    const auto gate = std::make_shared<Gate>(true, 7);
    LogWriter writer({.policy = policy, .queue_bytes_max = 100, .patience = 1ms});
    constexpr std::size_t kProduced = 10'000'000;
    auto all = std::async(std::launch::async, [&] {
      for (std::size_t i = 0; i < kProduced / 100; ++i) writer.write(gate, bytes(100));
    });
    writer.give_up();
    all.get();
    const std::size_t written = gate->text().size();
    CHECK(written + writer.dropped_bytes() == kProduced);
    CHECK(writer.finish(in(0ms)));
    CHECK(gate->text().size() == written);
  }
}

TEST_CASE("nothing hangs at the end when the reader has stopped") {
  const auto gate = std::make_shared<Gate>(false);
  {
    LogWriter writer({.policy = LogPolicy::block, .queue_bytes_max = 10});
    writer.write(gate, bytes(10));
    gate->wait_until_somebody_waits();
    CHECK_FALSE(writer.finish(in(1ms)));
    writer.give_up();
    CHECK(writer.dropped_bytes() == 10);
  }
  gate->open();
}

TEST_CASE("what a disk refuses is dropped and what nobody wants is not") {
  LogWriter writer({.kind = Kind::files});
  writer.write(std::make_shared<Sink>(true), bytes(9));
  writer.write(std::make_shared<Sink>(false), bytes(5));
  CHECK(writer.finish(in(10s)));
  CHECK(writer.dropped_bytes() == 9);
}

namespace {

/// A console of two pipes, workers that are threads, files for what they write.
struct Workplace {
  explicit Workplace(LogPolicy policy)
      : output({.policy = policy, .stdout_fd = out.workers.get(), .stderr_fd = err.workers.get()}) {
  }

  /// A stream; gives the worker's end.
  ddprun::UniqueFd stream(int rank, bool standard_error = false) {
    StreamPair pair = make_pipe().value();
    OutputSource source;
    source.fd = std::move(pair.ours);
    source.local_rank = rank;
    source.standard_error = standard_error;
    source.prefix = LinePrefix("[${rank}] ", {.rank = rank});
    source.file = LogFile::open(path(rank), {}).value();
    std::vector<OutputSource> sources;
    sources.push_back(std::move(source));
    output.add(std::move(sources));
    return std::move(pair.workers);
  }
  [[nodiscard]] std::string path(int rank) const {
    return (folder / std::to_string(rank)).string();
  }
  [[nodiscard]] std::string file(int rank) const {
    std::ifstream stream(path(rank));
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  /// What is in the console's pipe now.
  std::string shown() const {
    std::string text(1 << 20, '\0');
    const ssize_t n = ::read(out.ours.get(), text.data(), text.size());
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
  }

  ddprun::test::TempDir folder;
  StreamPair out = make_pipe().value();
  StreamPair err = make_pipe().value();
  WorkerOutput output;
};

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    REQUIRE(n > 0);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

TEST_CASE("lines of many workers come whole to the console and to their files") {
  Workplace work(LogPolicy::drop);
  constexpr int kWorkers = 4;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "line " + std::to_string(i) + "\n";
  std::vector<std::thread> workers;
  for (int rank = 0; rank < kWorkers; ++rank) {
    workers.emplace_back([&text, rank, fd = work.stream(rank)] {
      const auto step = static_cast<std::size_t>(1000 + 777 * rank);
      for (std::size_t at = 0; at < text.size(); at += step)
        write_all(fd.get(), std::string_view(text).substr(at, step));
    });
  }
  std::string shown;
  while (shown.size() < kWorkers * (text.size() + 20'000 * 4)) {
    fcntl(work.out.ours.get(), F_SETFL, 0);
    shown += work.shown();
  }
  for (std::thread& worker : workers) worker.join();
  work.output.drain(in(10s));
  work.output.flush(in(10s));
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
    work.output.drain(in(policy == LogPolicy::drop ? 10s : 50ms));
    work.output.flush(in(50ms));
    const auto produced = static_cast<std::size_t>(lines) * (line.size() + 4);
    CHECK(work.shown().size() + work.output.dropped_bytes() == produced);
    CHECK(work.file(0) == text);
  }
}

TEST_CASE("lines of ours stand between the workers' lines") {
  Workplace work(LogPolicy::drop);
  work.output.say("ddprun: here");
  work.output.flush(in(10s));
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
  work.output.drain(in(10s));
  const auto lines = work.output.last_lines(0, 1);
  REQUIRE(lines.size() >= 3);
  CHECK(lines[0] == "first");
  CHECK(lines[1] == odd);
  CHECK(lines.back() == "ValueError: x");
  CHECK(work.output.signs(0, 1).message() == "ValueError: x");
  work.output.flush(in(10s));
  CHECK(work.file(1).size() == 6 + 6 + 1'000'001 + 13);
}
