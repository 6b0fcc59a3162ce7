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
#include <memory>
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
  void connect(const std::string& name) {
    socket_.connect(Stream::endpoint(std::string(1, '\0') + name.substr(1)));
    asio::write(socket_, asio::buffer(proto::encode_frame(proto::encode_hello({"job", 1, 9, {}})) +
                                      proto::encode_frame("{}")));
    read();
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
  auto opened = agent::JobSocket::open(context, test::unique_mark(), 1,
                                       {[] { return "the state"; }, [](auto) {}});
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
