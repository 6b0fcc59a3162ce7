// Streams from which nothing has come yet: when they are handed over, and what is closed.
#include "agent/control/job_output.hpp"

#include <fcntl.h>
#include <pty.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <vector>

using namespace ddprun;
using agent::OutputSource;
using agent::QuietStreams;

namespace {

/// Pipes of three workers, and the context that waits for them.
class Pipes {
 public:
  Pipes() {
    std::vector<OutputSource> sources;
    for (int i = 0; i < 3; ++i) {
      int ends[2];
      REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
      writers.emplace_back(ends[1]);
      readers.push_back(ends[0]);
      OutputSource source;
      source.fd.reset(ends[0]);
      source.local_rank = i;
      sources.push_back(std::move(source));
    }
    REQUIRE_FALSE(streams.watch(std::move(sources)));
  }
  void print(int worker) const {
    REQUIRE(write(writers[static_cast<std::size_t>(worker)].get(), "x", 1) == 1);
  }
  void poll() {
    context.restart();
    context.poll();
  }
  [[nodiscard]] bool is_open(int worker) const {
    return fcntl(readers[static_cast<std::size_t>(worker)], F_GETFD) >= 0;
  }

  boost::asio::io_context context;
  std::vector<OutputSource> taken;
  QuietStreams streams{context,
                       [this](std::vector<OutputSource> sources) { taken = std::move(sources); }};
  std::vector<UniqueFd> writers;
  std::vector<int> readers;
};

}  // namespace

TEST_CASE("streams are handed over together with the first byte of one") {
  Pipes pipes;
  pipes.poll();
  CHECK(pipes.taken.empty());
  pipes.print(1);
  SECTION("the context sees it") { pipes.poll(); }
  SECTION("it is looked for") { pipes.streams.look(); }
  SECTION("their workers have ended") { pipes.streams.end(); }
  REQUIRE(pipes.taken.size() == 3);
  CHECK(pipes.taken[1].local_rank == 1);
  char byte = 0;
  CHECK(read(pipes.taken[1].fd.get(), &byte, 1) == 1);
}

TEST_CASE("a stream that only ends is not handed over, and the others are still heard") {
  Pipes pipes;
  pipes.writers[0].reset();
  pipes.poll();
  pipes.streams.look();
  CHECK(pipes.taken.empty());
  pipes.print(2);
  pipes.poll();
  CHECK(pipes.taken.size() == 3);
}

TEST_CASE("what a worker printed right before its end is handed over") {
  Pipes pipes;
  pipes.print(0);
  pipes.writers[0].reset();
  pipes.streams.look();
  CHECK(pipes.taken.size() == 3);
}

TEST_CASE("streams from which nothing came are closed when their workers have ended") {
  Pipes pipes;
  pipes.streams.end();
  CHECK(pipes.taken.empty());
  CHECK_FALSE(pipes.is_open(0));
  CHECK_FALSE(pipes.is_open(2));
  pipes.streams.hand_over();
  pipes.poll();
  CHECK(pipes.taken.empty());
}

TEST_CASE("streams are handed over at once where that is asked for") {
  Pipes pipes;
  pipes.streams.hand_over();
  CHECK(pipes.taken.size() == 3);
  CHECK(pipes.is_open(0));
  pipes.print(0);
  pipes.poll();
  CHECK(pipes.taken.size() == 3);
}

TEST_CASE("the first byte of a pseudo-terminal is not missed, nor what came before its end") {
  boost::asio::io_context context;
  std::vector<OutputSource> taken;
  QuietStreams streams(context,
                       [&](std::vector<OutputSource> sources) { taken = std::move(sources); });
  int ours = -1;
  int workers = -1;
  REQUIRE(openpty(&ours, &workers, nullptr, nullptr, nullptr) == 0);
  UniqueFd worker(workers);
  std::vector<OutputSource> sources(1);
  sources[0].fd.reset(ours);
  REQUIRE_FALSE(streams.watch(std::move(sources)));
  streams.look();
  CHECK(taken.empty());
  SECTION("it says something") {
    REQUIRE(write(worker.get(), "x", 1) == 1);
    worker.reset();
    streams.end();
    CHECK(taken.size() == 1);
  }
  SECTION("it says nothing") {
    worker.reset();
    streams.end();
    CHECK(taken.empty());
  }
}
