// What a worker makes of the messages of its agent, which is a thread here.
#include "trainer/run/loop/elastic.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/unique_handle.hpp"
#include "tests/support/child.hpp"
#include "trainer/comm/make_communicator.hpp"

namespace ddprun::trainer {
namespace {

using namespace std::chrono_literals;

std::string entry(const std::string& text) { return text + std::string(1, '\0'); }

/// The agent's end of a connection, and the variable that leads to it.
class Agent {
 public:
  Agent() : name_("@ddprun/test/" + ddprun::test::unique_mark()) {
    listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name_.data() + 1, name_.size() - 1);
    REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size())) == 0);
    REQUIRE(::listen(listener_.get(), 1) == 0);
    ::setenv("DDPRUN_SOCKET", name_.c_str(), 1);
  }
  ~Agent() { ::unsetenv("DDPRUN_SOCKET"); }

  /// Lets a worker join.
  std::unique_ptr<Elastic> open() {
    std::thread answers([this] {
      connection_ = UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      receive();
      send(R"({"ddprun":"job","version":1,"features":["elastic"]})");
      receive();
      send(entry("message=joined"));
    });
    auto elastic = Elastic::open();
    answers.join();
    return elastic;
  }
  void send(const std::string& frame) {
    const std::string bytes = std::string("\0\0\0", 3) + static_cast<char>(frame.size()) + frame;
    REQUIRE(::send(connection_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  std::string receive() {
    unsigned char size[4] = {};
    REQUIRE(::recv(connection_.get(), size, sizeof size, MSG_WAITALL) == 4);
    std::string frame(size[3], '\0');
    REQUIRE(::recv(connection_.get(), frame.data(), frame.size(), MSG_WAITALL) ==
            static_cast<ssize_t>(frame.size()));
    return frame;
  }
  void leave() { connection_.reset(); }

 private:
  std::string name_;
  UniqueFd listener_;
  UniqueFd connection_;
};

const std::string kInterruptNow = entry("message=interrupt") + entry("when=now");
const std::string kInterruptAfterStep = entry("message=interrupt") + entry("when=step");

TEST_CASE("without an agent there is no further round") { CHECK(Elastic::open() == nullptr); }

TEST_CASE("an interruption aborts the communicator, whenever it comes") {
  Agent agent;
  const auto elastic = agent.open();
  REQUIRE(elastic != nullptr);
  LocalCommunicator communicator(16);
  const bool is_early = GENERATE(true, false);
  if (!is_early) elastic->watch(&communicator);
  agent.send(kInterruptAfterStep);
  REQUIRE(ddprun::test::eventually([&] { return elastic->world_changes(); }));
  CHECK_FALSE(elastic->is_interrupted());
  CHECK(communicator.barrier(Clock::now() + 1s).ok());
  agent.send(kInterruptNow);
  REQUIRE(ddprun::test::eventually([&] { return elastic->is_interrupted(); }));
  if (is_early) elastic->watch(&communicator);
  CHECK(communicator.barrier(Clock::now() + 1s).status == CommStatus::aborted);
  elastic->unwatch();
}

TEST_CASE("the next round has its own variables, and interruptions of its own") {
  Agent agent;
  const auto elastic = agent.open();
  REQUIRE(elastic != nullptr);
  agent.send(kInterruptNow);
  std::string wait;
  std::thread forms([&] {
    wait = agent.receive();
    agent.send(kInterruptNow);  // to the round that the worker has left
    agent.send(entry("message=round") + entry("RANK=2") + entry("DDPRUN_SOURCE_RANK=1"));
  });
  CHECK(elastic->next_round(812) == 0);
  forms.join();
  CHECK(wait == entry("message=wait") + entry("step=812"));
  CHECK(std::string(elastic->value("RANK")) == "2");
  CHECK(std::string(elastic->value("DDPRUN_SOURCE_RANK")) == "1");
  CHECK(elastic->value("WORLD_SIZE") == nullptr);
  CHECK_FALSE(elastic->is_interrupted());
  CHECK_FALSE(elastic->world_changes());
  agent.send(kInterruptNow);
  CHECK(ddprun::test::eventually([&] { return elastic->is_interrupted(); }));
}

TEST_CASE("a worker whose agent is gone has no next round") {
  Agent agent;
  const auto elastic = agent.open();
  REQUIRE(elastic != nullptr);
  agent.leave();
  CHECK(elastic->next_round(std::nullopt) != 0);
}

}  // namespace
}  // namespace ddprun::trainer
