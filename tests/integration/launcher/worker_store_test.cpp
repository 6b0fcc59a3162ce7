// Which process serves the workers' store, which may use it, and a fixed port in the next round.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "rendezvous/client/store_client.hpp"
#include "tests/support/job.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using test::Job;

namespace {

std::uint16_t port_after(const std::string& text, const std::string& name) {
  const auto at = text.rfind(name + "=");
  return at == std::string::npos
             ? std::uint16_t{0}
             : static_cast<std::uint16_t>(std::stoi(text.substr(at + name.size() + 1)));
}

Result<rdzv::StoreClient> connect_to(std::uint16_t port) {
  return rdzv::StoreClient::connect("127.0.0.1", port, std::chrono::steady_clock::now() + 5s);
}

}  // namespace

TEST_CASE("with rank0 the workers serve the store themselves on a free port") {
  const auto result = Job().run(
      {"--worker-store=rank0", "--max-restarts=1"},
      {"env", "TORCHELASTIC_USE_AGENT_STORE", "env", "MASTER_PORT", "round", "0", "exit", "1"});
  CHECK(result.status == 0);
  CHECK(result.out.find("TORCHELASTIC_USE_AGENT_STORE=False\n") == 0);
  const std::uint16_t port = port_after(result.out, "MASTER_PORT");
  REQUIRE(port != 0);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  CHECK(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  close(fd);
}

TEST_CASE("a client of the old round on a fixed port is reset and the new round's store is empty") {
  Job job;
  const auto port = static_cast<std::uint16_t>(20000 + getpid() % 10000);
  test::TempDir meeting;
  // Round 0 fails once a file is there; round 1 ends when another one is.
  const auto script = "echo round $DDPRUN_ROUND; f=" + meeting.path().string() +
                      "/end$DDPRUN_ROUND; while [ ! -e $f ]; do sleep 0.02; done; exit $((1 - "
                      "$DDPRUN_ROUND))";
  test::Child child({test::program("ddprun"), "--max-restarts=1",
                     "--master-port=" + std::to_string(port), "/bin/sh", "-c", script},
                    job.settings());
  REQUIRE(child.wait_for_output("round 0"));
  auto old_client = connect_to(port);
  REQUIRE(old_client.has_value());
  const auto limit = [] { return std::chrono::steady_clock::now() + 5s; };
  REQUIRE(old_client->set("key", "old", limit()).has_value());
  std::ofstream(meeting / "end0") << "x";
  REQUIRE(child.wait_for_output("round 1"));
  CHECK_FALSE(old_client->get("key", limit()).has_value());
  auto new_client = connect_to(port);
  REQUIRE(new_client.has_value());
  const std::vector<std::string> keys{"key"};
  const auto there = new_client->check(keys, limit());
  REQUIRE(there.has_value());
  CHECK_FALSE(*there);
  std::ofstream(meeting / "end1") << "x";
  CHECK(child.wait().status == 0);
}
