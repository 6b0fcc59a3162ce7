// The environment contract: what launchers set, and what is refused.
#include "trainer/run/cli/environment.hpp"

#include <catch2/catch.hpp>
#include <map>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
using Variables = std::map<std::string, std::string>;

WorkerEnvironment read(const Variables& variables) {
  return read_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

const Variables kTwoWorkers{
    {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

TEST_CASE("without a launcher there is one worker") {
  const WorkerEnvironment environment = read({});
  CHECK(environment.rank == 0);
  CHECK(environment.world_size == 1);
  CHECK(environment.local_world_size == 1);
  CHECK_FALSE(environment.restarted());
}

TEST_CASE("the launcher's variables are taken over") {
  Variables variables = kTwoWorkers;
  variables["LOCAL_RANK"] = "0";
  variables["LOCAL_WORLD_SIZE"] = "1";
  variables["TORCHELASTIC_RUN_ID"] = "job";
  variables["TORCHELASTIC_RESTART_COUNT"] = "3";
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  const WorkerEnvironment environment = read(variables);
  CHECK(environment.rank == 1);
  CHECK(environment.local_world_size == 1);
  CHECK(environment.master_addr == "10.0.0.1");
  CHECK(environment.master_port == 29500);
  CHECK(environment.agent_store);
  CHECK(environment.run_id == "job");
  CHECK(environment.restart_count == 3);
  CHECK(environment.round == 3);
  CHECK(environment.source_rank == std::nullopt);
  CHECK(environment.restarted());
}

TEST_CASE("a worker knows which rank has the state of a run that goes on") {
  CHECK(read(with(kTwoWorkers, "DDPRUN_SOURCE_RANK", "0")).source_rank == 0);
  CHECK_THROWS_WITH(read(with(kTwoWorkers, "DDPRUN_SOURCE_RANK", "2")),
                    Contains("DDPRUN_SOURCE_RANK=2"));
}

TEST_CASE("workers started by hand are taken to be on one machine") {
  CHECK(read(kTwoWorkers).local_world_size == 2);
  CHECK(read(kTwoWorkers).local_rank == 1);
  CHECK_FALSE(read(kTwoWorkers).agent_store);
}

TEST_CASE("a round without a restart counts as following others") {
  const WorkerEnvironment environment = read(with(kTwoWorkers, "DDPRUN_ROUND", "1"));
  CHECK(environment.restart_count == 0);
  CHECK(environment.round == 1);
  CHECK(environment.restarted());
}

TEST_CASE("the epoch of a round is that of ddprun, and no other launcher has one") {
  CHECK_FALSE(read(kTwoWorkers).epoch);
  CHECK(read(with(kTwoWorkers, "DDPRUN_EPOCH", "3")).epoch == 3);
  CHECK_THROWS_AS(read(with(kTwoWorkers, "DDPRUN_EPOCH", "-1")), DataError);
}

TEST_CASE("the number of workers that a job may grow to is that of ddprun") {
  CHECK(read(kTwoWorkers).max_world_size == 0);
  CHECK(read(with(kTwoWorkers, "DDPRUN_MAX_WORLD_SIZE", "8")).max_world_size == 8);
  CHECK_THROWS_AS(read(with(kTwoWorkers, "DDPRUN_MAX_WORLD_SIZE", "many")), DataError);
}

TEST_CASE("torchrun's default run id is none at all") {
  CHECK(read(with(kTwoWorkers, "TORCHELASTIC_RUN_ID", "none")).run_id.empty());
}

TEST_CASE("wrong numbers are refused with their name and what they must be") {
  for (const char* wrong : {"two", "-1", "0", "1.5", "2 ", "99999999999999999999"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(read(with(kTwoWorkers, "WORLD_SIZE", wrong)),
                      Contains(std::string("WORLD_SIZE=") + wrong));
  }
  CHECK_THROWS_WITH(read(with(kTwoWorkers, "RANK", "2")),
                    Contains("RANK=2: must be a number from 0 to 1"));
  CHECK_THROWS_WITH(read(with(kTwoWorkers, "MASTER_PORT", "70000")), Contains("MASTER_PORT=70000"));
  CHECK_THROWS_WITH(read(with(kTwoWorkers, "TORCHELASTIC_RESTART_COUNT", "x")),
                    Contains("TORCHELASTIC_RESTART_COUNT=x"));
}

TEST_CASE("several workers need a rank and an address") {
  CHECK_THROWS_WITH(read(with(kTwoWorkers, "RANK", "")), Contains("RANK is not set"));
  CHECK_THROWS_WITH(read(with(kTwoWorkers, "MASTER_ADDR", "")), Contains("MASTER_ADDR"));
  CHECK_THROWS_WITH(read(with(kTwoWorkers, "MASTER_PORT", "")), Contains("MASTER_PORT"));
}

}  // namespace
}  // namespace ddprun::trainer
