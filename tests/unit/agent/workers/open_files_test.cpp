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
  files.store_clients = 39 + 80;
  CHECK(agent::too_few_for_nodes(config, files).empty());
  --files.store_clients;
  CHECK(agent::too_few_for_nodes(config, files) ==
        "this node has the rendezvous and the workers' store and may open 200 files, about 118 of "
        "them for connections; 40 nodes need about 119: raise the limit (ulimit -n)");
  config.agent_store = false;
  CHECK(agent::too_few_for_nodes(config, files).empty());
  files.store_clients = 38;
  CHECK(agent::too_few_for_nodes(config, files) ==
        "this node has the rendezvous and may open 200 files, about 38 of them for connections; 40 "
        "nodes need about 39: raise the limit (ulimit -n)");
}
