// The purpose of the store: a real ncclUniqueId gets from rank 0 to all workers, in each round by a
// store of its own.
#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/store/store_server.hpp"
#include "tests/support/child.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun::rdzv;
using namespace ddprun::test;

TEST_CASE("a real NCCL id reaches eight workers in each of three rounds") {
  const std::string worker = helper("nccl_id_worker");
  if (!std::filesystem::exists(worker)) skip("NCCL was not found when the tests were built");
  std::set<std::string> ids;
  for (int round = 0; round < 3; ++round) {
    auto listener = listen_store("127.0.0.1", 0);
    REQUIRE(listener.has_value());
    auto server = StoreServer::start(std::move(*listener)).value();
    std::vector<std::unique_ptr<Child>> workers;
    ChildOptions options;
    options.leave_stdin = true;
    // NCCL picks an interface for its bootstrap; the loopback one is on every machine.
    options.environment = {{"NCCL_SOCKET_IFNAME", "lo"}};
    for (int rank = 7; rank >= 0; --rank) {  // rank 0 comes last, so the others have to wait
      workers.push_back(std::make_unique<Child>(
          std::vector<std::string>{worker, server.addr(), std::to_string(server.port()),
                                   std::to_string(rank)},
          options));
    }
    std::set<std::string> seen;
    for (const auto& child : workers) {
      const ChildResult result = child->wait();
      INFO(result.err);
      REQUIRE(result.status == 0);
      const std::size_t begin = result.out.find("id ");
      REQUIRE(begin != std::string::npos);
      seen.insert(result.out.substr(begin + 3, 256));
    }
    REQUIRE(seen.size() == 1);
    CHECK(seen.begin()->size() == 256);
    CHECK(seen.begin()->find_first_not_of("0123456789abcdef") == std::string::npos);
    ids.insert(*seen.begin());
  }
  CHECK(ids.size() == 3);
}
