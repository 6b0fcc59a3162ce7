// Whether the limit of open files is enough for the nodes of a job.
#include "agent/workers/open_files.hpp"

#include <catch2/catch.hpp>

using namespace ddprun;

TEST_CASE("the node that has the rendezvous needs files for all agents and the store's clients") {
  agent::AgentConfig config;
  config.job.max_nodes = 40;
  config.workers.resize(2);
  agent::OpenFiles files;
  files.limit = 200;
  files.store_clients = 158;  // a quarter of these is for strangers
  CHECK(agent::too_few_for_nodes(config, files).empty());
  --files.store_clients;
  CHECK(agent::too_few_for_nodes(config, files) ==
        "this node has the rendezvous and the workers' store and may open 200 files, about 118 of "
        "them for connections; 40 nodes need about 119: raise the limit (ulimit -n)");
  config.store.in_agent = false;
  CHECK(agent::too_few_for_nodes(config, files).empty());
  files.store_clients = 50;
  CHECK(agent::too_few_for_nodes(config, files) ==
        "this node has the rendezvous and may open 200 files, about 38 of them for connections; 40 "
        "nodes need about 39: raise the limit (ulimit -n)");
}

TEST_CASE("strangers at the rendezvous take nothing from the agents and the workers' store") {
  agent::AgentConfig config;
  config.job.max_nodes = 3;
  agent::OpenFiles files;
  const auto shares_of = [&](std::uint64_t connections) {
    files.store_clients = connections;
    return agent::connection_shares(config, files);
  };
  CHECK(shares_of(100).newcomers == 25);
  CHECK(shares_of(100).parked == 0);
  CHECK(shares_of(100).store_clients == 73);
  CHECK(shares_of(1'000'000).newcomers == 1'024);
  CHECK(shares_of(1'000'000).store_clients == 998'974);
  // Where there is only one port, clients of the next round's store wait at it, too.
  config.rendezvous.emplace().one_port = true;
  CHECK(shares_of(100).parked == 25);
  CHECK(shares_of(100).store_clients == 50);
  CHECK(shares_of(8).newcomers == 2);
  CHECK(shares_of(8).parked == 2);
  CHECK(shares_of(8).store_clients == 4);
  CHECK(shares_of(1).newcomers == 2);
  CHECK(shares_of(1).store_clients == 1);
}
