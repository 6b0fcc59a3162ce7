// What workers print, as the control thread uses it.
#include "agent/control/job_output.hpp"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "agent/terminal/stream_pair.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

/// The stderr of one worker, which nobody sees.
struct OneWorker {
  OneWorker() {
    config.workers.resize(1);
    config.workers[0].standard_error.mode = agent::StreamMode::pipe;
    REQUIRE(output.prepare().empty());
    agent::StreamPair pair = agent::make_stream_pipe().value();
    stream = std::move(pair.workers);
    agent::OutputSource source;
    source.fd = std::move(pair.ours);
    source.standard_error = true;
    source.to_console = false;
    std::vector<agent::OutputSource> sources;
    sources.push_back(std::move(source));
    REQUIRE(output.watch(std::move(sources)).empty());
  }
  void print(const std::string& text) const {
    REQUIRE(write(stream.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }

  boost::asio::io_context context;
  agent::AgentConfig config;
  agent::JobOutput output{context, config, {[](const std::string&) {}, {}, {}}};
  UniqueFd stream;
};

}  // namespace

TEST_CASE("the last words of failed workers are read before their ends go on, in order") {
  OneWorker worker;
  std::string order;
  worker.print("Traceback (most recent call last):\nValueError: bad lr\n");
  worker.output.when_read([&] {
    order += 'a';
    CHECK(worker.output.last_message(0, 0) == "ValueError: bad lr");
  });
  worker.output.when_read([&] { order += 'b'; });
  while (order.size() < 2 && worker.context.run_one_for(10s) > 0) {
  }
  CHECK(order == "ab");
}

TEST_CASE("where workers have printed nothing their ends are not waited for") {
  OneWorker worker;
  bool is_called = false;
  worker.output.when_read([&] { is_called = true; });
  CHECK(is_called);
  CHECK(worker.output.last_message(0, 0).empty());
}

TEST_CASE("what dead workers wrote is read before their round goes on") {
  OneWorker worker;
  worker.print("Traceback (most recent call last):\nValueError: bad lr\n");
  worker.stream.reset();
  bool is_called = false;
  worker.output.when_ended({}, [&] {
    is_called = true;
    CHECK(worker.output.last_message(0, 0) == "ValueError: bad lr");
  });
  while (!is_called && worker.context.run_one_for(10s) > 0) {
  }
  CHECK(is_called);
}

TEST_CASE("a stream that outlives its dead worker is read and not waited for to its end") {
  OneWorker worker;
  worker.print("Traceback (most recent call last):\nValueError: bad lr\n");
  bool is_called = false;
  worker.output.when_ended({}, [&] {
    is_called = true;
    CHECK(worker.output.last_message(0, 0) == "ValueError: bad lr");
  });
  CHECK_FALSE(is_called);
  while (!is_called && worker.context.run_one_for(10s) > 0) {
  }
  CHECK(is_called);
}

TEST_CASE("where no output goes through the agent none is waited for") {
  boost::asio::io_context context;
  const agent::AgentConfig config;
  agent::JobOutput output(context, config, {[](const std::string&) {}, {}, {}});
  bool is_called = false;
  output.when_ended({}, [&] { is_called = true; });
  CHECK(is_called);
}

TEST_CASE("lines of our own are waited for by the same call as the streams' ends") {
  std::mutex mutex;
  std::condition_variable called;
  int calls = 0;
  const agent::StreamPair console = agent::make_stream_pipe().value();
  agent::WorkerOutput output(
      {.stdout_fd = console.workers.get(), .stderr_fd = console.workers.get(), .caught_up = [&] {
         const std::lock_guard lock(mutex);
         ++calls;
         called.notify_all();
       }});
  REQUIRE_FALSE(output.add({}));
  output.begin_drain();
  for (int line = 0; line < 20; ++line) {
    // With no stream open only this line is left to be handed over.
    std::unique_lock lock(mutex);
    const int before = calls;
    lock.unlock();
    REQUIRE(output.say("a line"));
    lock.lock();
    REQUIRE(called.wait_for(lock, 10s, [&] { return calls > before; }));
  }
  output.end_drain();
  output.flush(std::chrono::steady_clock::now() + 10s);
}
