#include "agent/streams/log_writer.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>

#include "tests/support/no_threads.hpp"

using namespace ddprun;
using namespace ddprun::agent;
using namespace std::chrono_literals;
using Kind = LogWriterSettings::Kind;

namespace {

std::chrono::steady_clock::time_point in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

/// Takes bytes only while it is open, and then so many at a time.
class Gate final : public ByteOutput {
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
  void wait_until_a_writer_waits() {
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

/// A writer with a producer of bytes, which waits when the writer tells it to.
class Producer {
 public:
  explicit Producer(LogWriterSettings settings) : writer(settings, [this] { made_room(); }) {}

  void offer(const std::shared_ptr<ByteOutput>& output, LogBuffer text) {
    while (!writer.accepts(LogWriter::Clock::now())) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, 1ms, [this] { return room_; });
      room_ = false;
    }
    writer.write(output, std::move(text));
  }

 private:
  void made_room() {
    const std::lock_guard lock(mutex_);
    room_ = true;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool room_ = false;

 public:
  LogWriter writer;
};

const LogWriter::Clock::time_point kBegin{1h};

/// What takes away all it is given, in a way.
class Sink final : public ByteOutput {
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

TEST_CASE("where the system refuses the thread, the caller writes everything itself") {
  const test::NoThreads none;
  LogWriter writer({.queue_bytes_max = 100});
  const auto gate = std::make_shared<Gate>(true, 7);  // wants to be waited for
  writer.write(gate, bytes(1000, 'a'));
  writer.write(gate, bytes(50, 'b'));
  CHECK(writer.idle());
  CHECK(gate->text() == std::string(1000, 'a') + std::string(50, 'b'));
  CHECK(writer.finish(in(0ms)));
  CHECK(writer.dropped_bytes() == 0);
}

TEST_CASE("a stuck console loses output beyond its queue, counted and reported") {
  const auto gate = std::make_shared<Gate>(false);
  LogWriter writer({.kind = Kind::console, .queue_bytes_max = 100, .patience = 1ms});
  writer.write(gate, bytes(60, 'a'));
  gate->wait_until_a_writer_waits();
  CHECK(writer.accepts(kBegin));
  writer.write(gate, bytes(40, 'b'));
  CHECK_FALSE(writer.accepts(kBegin));
  CHECK(writer.patience_ends() == kBegin + 1ms);
  CHECK(writer.accepts(kBegin + 1ms));
  writer.write(gate, bytes(10, 'c'));
  CHECK(writer.accepts(kBegin + 1ms));
  writer.write(gate, bytes(7, 'd'));
  CHECK(writer.dropped_bytes() == 17);
  gate->open();
  CHECK(writer.finish(in(10s)));
  writer.write(gate, bytes(5, 'e'));
  CHECK(writer.finish(in(10s)));
  CHECK(writer.dropped_bytes() == 17);
  CHECK(gate->text() ==
        std::string(60, 'a') + std::string(40, 'b') +
            "\nddprun: dropped 17 bytes of output here: the reader was too slow\neeeee");
}

TEST_CASE("a producer that waits loses nothing") {
  const auto gate = std::make_shared<Gate>(false);
  Producer producer({.policy = LogPolicy::block, .queue_bytes_max = 100, .patience = 0ms});
  auto all = std::async(std::launch::async, [&] {
    for (int i = 0; i < 50; ++i) producer.offer(gate, bytes(30));
  });
  gate->wait_until_a_writer_waits();
  gate->open();
  all.get();
  CHECK(producer.writer.finish(in(10s)));
  CHECK(gate->text().size() == 1500);
  CHECK(producer.writer.dropped_bytes() == 0);
}

TEST_CASE("a slow reader is waited for each time it has taken something, and a stuck one is not") {
  const auto gate = std::make_shared<Gate>(false);
  LogWriter writer({.policy = LogPolicy::automatic, .queue_bytes_max = 100, .patience = 30s});
  CHECK_FALSE(writer.is_slow(LogWriter::Clock::now()));  // nothing waits
  const auto other = std::make_shared<Gate>(true);
  writer.write(gate, bytes(1));
  writer.write(other, bytes(10));
  writer.write(gate, bytes(99));
  CHECK(writer.is_slow(LogWriter::Clock::now()));
  CHECK_FALSE(writer.is_slow(LogWriter::Clock::now() + 30s));
  CHECK_FALSE(writer.accepts(kBegin));
  CHECK_FALSE(writer.accepts(kBegin + 29s));
  gate->open();
  REQUIRE(writer.finish(in(10s)));
  const auto shut = std::make_shared<Gate>(false);
  writer.write(shut, bytes(100));
  CHECK_FALSE(writer.accepts(kBegin + 35s));
  CHECK_FALSE(writer.accepts(kBegin + 64s));
  CHECK(writer.accepts(kBegin + 65s));
  writer.write(shut, bytes(7));
  CHECK(writer.dropped_bytes() == 7);
  writer.give_up();
  shut->open();
}

TEST_CASE("a producer that waits is told to for as long as the queue is full") {
  const auto gate = std::make_shared<Gate>(false);
  LogWriter writer({.policy = LogPolicy::block, .queue_bytes_max = 10});
  writer.write(gate, bytes(10));
  CHECK_FALSE(writer.accepts(kBegin));
  CHECK_FALSE(writer.accepts(kBegin + 1000h));
  CHECK_FALSE(writer.patience_ends().has_value());
  gate->open();
  CHECK(writer.finish(in(10s)));
  CHECK(writer.accepts(kBegin));
}

TEST_CASE("a waiting producer is called again when half of the queue is free") {
  const auto gate = std::make_shared<Gate>(true, 10);
  std::atomic<int> calls = 0;
  LogWriter writer({.policy = LogPolicy::block, .queue_bytes_max = 100}, [&] { ++calls; });
  const auto stuck = std::make_shared<Gate>(false);
  writer.write(gate, bytes(30));
  CHECK(writer.finish(in(10s)));
  CHECK(calls == 0);  // no producer waits
  writer.write(stuck, bytes(1));
  for (int i = 0; i < 10; ++i) {
    CHECK(writer.accepts(kBegin));
    writer.write(gate, bytes(10));
  }
  CHECK_FALSE(writer.accepts(kBegin));
  CHECK(calls == 0);
  stuck->open();
  CHECK(writer.finish(in(10s)));
  CHECK(calls == 1);
  CHECK(writer.accepts(kBegin));
}

TEST_CASE("the rest of ended workers is taken without waiting, up to eight queues") {
  for (const LogPolicy policy : {LogPolicy::drop, LogPolicy::block}) {
    const auto gate = std::make_shared<Gate>(false);
    LogWriter writer({.policy = policy, .queue_bytes_max = 100});
    writer.write(gate, bytes(100));
    CHECK_FALSE(writer.accepts(kBegin));
    for (int i = 0; i < 72; ++i) {
      CHECK(writer.accepts(kBegin, LogUrgency::round_over));
      writer.write(gate, bytes(10));
    }
    CHECK(writer.dropped_bytes() == 20);
    gate->open();
    CHECK(writer.finish(in(10s)));
    CHECK(gate->text().size() == 800);
  }
}

TEST_CASE("evidence finds room where other bytes wait, up to a second queue") {
  const auto gate = std::make_shared<Gate>(false);
  LogWriter writer({.policy = LogPolicy::block, .queue_bytes_max = 100});
  writer.write(gate, bytes(100));
  CHECK_FALSE(writer.accepts(kBegin));
  for (int i = 0; i < 10; ++i) {
    CHECK(writer.accepts(kBegin, LogUrgency::evidence));
    writer.write(gate, bytes(10));
  }
  CHECK_FALSE(writer.accepts(kBegin, LogUrgency::evidence));
  CHECK(writer.dropped_bytes() == 0);
  gate->open();
}

TEST_CASE("evidence that had room again has all its patience when there is none once more") {
  const auto gate = std::make_shared<Gate>(false);
  std::atomic<int> wanted = 0;
  LogWriter writer({.kind = Kind::console, .queue_bytes_max = 100, .patience = 100ms},
                   [&wanted] { ++wanted; });
  for (int i = 0; i < 2; ++i) writer.write(gate, bytes(100));
  CHECK_FALSE(writer.accepts(kBegin, LogUrgency::evidence));
  gate->open();
  REQUIRE(writer.finish(in(10s)));
  CHECK(writer.accepts(kBegin + 50ms, LogUrgency::evidence));
  CHECK_FALSE(writer.patience_ends().has_value());
  const auto shut = std::make_shared<Gate>(false);
  for (int i = 0; i < 2; ++i) writer.write(shut, bytes(100));
  CHECK_FALSE(writer.accepts(kBegin + 10s, LogUrgency::evidence));
  CHECK(writer.accepts(kBegin + 10s + 100ms, LogUrgency::evidence));
  writer.give_up();
  shut->open();
}

TEST_CASE("files wait for the rest of ended workers, but not for a disk that hangs") {
  const auto gate = std::make_shared<Gate>(false);
  LogWriter writer(
      {.kind = Kind::files, .policy = LogPolicy::block, .queue_bytes_max = 100, .patience = 2s});
  writer.write(gate, bytes(100));
  CHECK_FALSE(writer.accepts(kBegin));
  CHECK_FALSE(writer.accepts(kBegin, LogUrgency::round_over));
  CHECK_FALSE(writer.accepts(kBegin + 1s));
  CHECK_FALSE(writer.accepts(kBegin + 1s, LogUrgency::round_over));
  CHECK(writer.accepts(kBegin + 2s, LogUrgency::round_over));
  writer.write(gate, bytes(3));
  CHECK(writer.dropped_bytes() == 3);
  gate->open();
}

TEST_CASE("ddprun's own lines have room where the workers' have none, and are not counted") {
  const auto gate = std::make_shared<Gate>(false);
  LogWriter writer({.queue_bytes_max = 10, .patience = 1ms});
  writer.write(gate, bytes(10, 'a'));
  gate->wait_until_a_writer_waits();
  CHECK_FALSE(writer.accepts(kBegin));
  CHECK(writer.accepts(kBegin + 1ms));
  writer.write(gate, bytes(5, 'b'));
  writer.write(gate, bytes(7, 'o'), LogOrigin::ours);
  CHECK(writer.dropped_bytes() == 5);
  writer.write(gate, bytes(kOwnBytesMax, 'p'), LogOrigin::ours);
  CHECK(writer.dropped_bytes() == 5);
  writer.give_up();
  CHECK(writer.dropped_bytes() == 15);
  gate->open();
}

TEST_CASE("a disk that takes a little is waited for") {
  const auto gate = std::make_shared<Gate>(true, 3);
  Producer producer(
      {.kind = Kind::files, .policy = LogPolicy::automatic, .queue_bytes_max = 50, .patience = 5s});
  for (int i = 0; i < 100; ++i) producer.offer(gate, bytes(40));
  CHECK(producer.writer.finish(in(10s)));
  CHECK(gate->text().size() == 4000);
  CHECK(producer.writer.dropped_bytes() == 0);
}

TEST_CASE("giving up frees waiting producers, and every unwritten byte counts as dropped") {
  for (const LogPolicy policy : {LogPolicy::drop, LogPolicy::block}) {
    const auto gate = std::make_shared<Gate>(true, 7);
    Producer producer({.policy = policy, .queue_bytes_max = 100, .patience = 1ms});
    LogWriter& writer = producer.writer;
    constexpr std::size_t kProduced = 10'000'000;
    auto all = std::async(std::launch::async, [&] {
      for (std::size_t i = 0; i < kProduced / 100; ++i) producer.offer(gate, bytes(100));
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
    gate->wait_until_a_writer_waits();
    CHECK_FALSE(writer.finish(in(1ms)));
    writer.give_up();
    CHECK(writer.dropped_bytes() == 10);
  }
  gate->open();
}

TEST_CASE("bytes that a disk refuses count as dropped and unwanted bytes do not") {
  LogWriter writer({.kind = Kind::files});
  writer.write(std::make_shared<Sink>(true), bytes(9));
  writer.write(std::make_shared<Sink>(false), bytes(5));
  CHECK(writer.finish(in(10s)));
  CHECK(writer.dropped_bytes() == 9);
}
