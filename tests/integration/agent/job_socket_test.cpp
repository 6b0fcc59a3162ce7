#include "agent/control/job_socket.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "base/unique_handle.hpp"
#include "proto/frame.hpp"
#include "tests/support/child.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using Stream = asio::local::stream_protocol;

namespace {

/// Asks a job for its state, from the same thread as the job's socket.
class Asker {
 public:
  explicit Asker(asio::io_context& context) : socket_(context) { socket_.open(); }

  /// The kernel takes the connection whether or not it is accepted.
  void connect(const std::string& name, const std::string& request = "{}") {
    socket_.connect(Stream::endpoint(std::string(1, '\0') + name.substr(1)));
    asio::write(socket_, asio::buffer(proto::encode_frame(proto::encode_hello({"job", 1, 9, {}})) +
                                      proto::encode_frame(request)));
    read();
  }
  void send(const std::string& request) {
    asio::write(socket_, asio::buffer(proto::encode_frame(request)));
  }
  [[nodiscard]] const std::string& answer() const { return answer_; }

 private:
  void read() {
    socket_.async_read_some(asio::buffer(part_),
                            [this](boost::system::error_code ec, std::size_t n) {
                              if (ec) return;
                              answer_.append(part_, n);
                              read();
                            });
  }

  Stream::socket socket_;
  char part_[512];
  std::string answer_;
};

bool run_until(asio::io_context& context, const Asker& asker, const std::string& text) {
  return test::eventually([&] {
    context.run_for(1ms);
    return asker.answer().find(text) != std::string::npos;
  });
}

/// Our own log, kept instead of printed, as long as this lives.
class KeptLog {
 public:
  KeptLog() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "kept", std::make_shared<spdlog::sinks::ostream_sink_st>(text_)));
    spdlog::set_pattern("%v");
  }
  ~KeptLog() { spdlog::set_default_logger(before_); }
  KeptLog(const KeptLog&) = delete;
  KeptLog& operator=(const KeptLog&) = delete;

  [[nodiscard]] std::string text() const { return text_.str(); }

 private:
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream text_;
};

}  // namespace

TEST_CASE(
    "a job asked for its state while no descriptor is left warns once, and answers when there is "
    "one again") {
  const KeptLog log;
  asio::io_context context;
  const agent::EventLog events;
  auto opened = agent::JobSocket::open(
      context, {test::unique_mark(), "a", 1}, events,
      {[](auto&, pid_t, const auto& reply) { reply("the state"); }, {}, [](auto) {}});
  REQUIRE(opened.has_value());
  opened->start();
  // The first one makes the sanitizer, which opens pipes for classes new to it, know them all.
  Asker first(context);
  first.connect(opened->name());
  REQUIRE(run_until(context, first, "the state"));

  Asker second(context);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit low = before;
  {
    const UniqueFd first_free(dup(0));
    low.rlim_cur = static_cast<rlim_t>(first_free.get());
  }
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  second.connect(opened->name());
  // A loop that asks the kernel again and again would take thousands of turns.
  const std::size_t turns = context.run_for(500ms);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(turns < 10);
  CHECK(second.answer().empty());
  CHECK(run_until(context, second, "the state"));
  CHECK(log.text() == opened->name() +
                          " cannot be asked for the job's state now: Too many open files; raise "
                          "the limit of open files (ulimit -n)\n");
}

namespace {

/// A job of which only the socket is there.
struct SocketAlone {
  explicit SocketAlone(std::string status = "the state")
      : socket(agent::JobSocket::open(
                   context, {test::unique_mark(), "a", 1}, events,
                   {[status](auto&, pid_t, const auto& reply) { reply(status); }, {}, [](auto) {}})
                   .value()) {
    socket.start();
  }
  void add_events(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      events.add(agent::LinePrinted{"line " + std::to_string(i)}, std::nullopt, {});
      socket.on_news();
    }
  }

  asio::io_context context;
  agent::EventLog events;
  agent::JobSocket socket;
};

}  // namespace

TEST_CASE(
    "events are told from the first one that is kept, with the number of those that are not") {
  SocketAlone job;
  job.add_events(agent::EventLog::kEventsMax + 5);
  Asker asker(job.context);
  asker.connect(job.socket.name(), R"({"request":"events"})");
  REQUIRE(run_until(job.context, asker, R"({"end":true})"));
  CHECK(asker.answer().find(R"({"lost":5})") != std::string::npos);
  CHECK(asker.answer().find(R"("text":"line 5")") != std::string::npos);
  CHECK(asker.answer().find(R"("text":"line 4")") == std::string::npos);
}

TEST_CASE("one that follows and does not read holds up nothing, and learns what it has missed") {
  SocketAlone job;
  asio::io_context other;
  Stream::socket slow(other);
  slow.connect(Stream::endpoint(std::string(1, '\0') + job.socket.name().substr(1)));
  asio::write(slow, asio::buffer(proto::encode_frame(proto::encode_hello({"job", 1, 9, {}})) +
                                 proto::encode_frame(R"({"request":"events","follow":true})")));
  Asker quick(job.context);
  quick.connect(job.socket.name(), R"({"request":"events","follow":true})");
  for (int i = 0; i < 20; ++i) {
    job.add_events(agent::EventLog::kEventsMax / 4);
    job.context.run_for(5ms);
  }
  const std::string last = R"("number":)" + std::to_string(job.events.next_number() - 1) + ",";
  REQUIRE(run_until(job.context, quick, last));
  CHECK(quick.answer().find("lost") == std::string::npos);
  std::string read;
  slow.non_blocking(true);
  REQUIRE(test::eventually([&] {
    char part[65536];
    boost::system::error_code nothing;
    const std::size_t n = slow.read_some(asio::buffer(part), nothing);
    read.append(part, n);
    job.context.run_for(1ms);
    return read.find(last) != std::string::npos;
  }));
  CHECK(read.find(R"({"lost":)") != std::string::npos);
}

TEST_CASE("those that wait for the end learn it, and too many are refused") {
  SocketAlone job;
  std::deque<Asker> askers;
  for (int i = 0; i < 33; ++i)
    askers.emplace_back(job.context).connect(job.socket.name(), R"({"request":"wait"})");
  REQUIRE(run_until(job.context, askers.back(), "too many wait"));
  Asker late(job.context);
  late.connect(job.socket.name(), R"({"request":"events","follow":true})");
  REQUIRE(run_until(job.context, late, "too many wait"));
  job.socket.on_job_end(7);
  CHECK(run_until(job.context, askers.front(), R"({"end":true,"exit_code":7})"));
}

TEST_CASE("a request that was not read before the end is answered, too") {
  SocketAlone job;
  Asker asker(job.context);
  asker.connect(job.socket.name());
  REQUIRE(run_until(job.context, asker, "the state"));
  asker.send(R"({"request":"wait"})");
  job.socket.on_job_end(3);
  CHECK(run_until(job.context, asker, R"({"end":true,"exit_code":3})"));
}

TEST_CASE("an answer that is longer than a frame is an error") {
  SocketAlone job(std::string(proto::kFrameBytesMax + 1, 'x'));
  Asker asker(job.context);
  asker.connect(job.socket.name());
  CHECK(run_until(job.context, asker, "the answer is too long"));
}
