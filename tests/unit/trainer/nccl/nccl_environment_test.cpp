#include "trainer/nccl/nccl_environment.hpp"

#include <catch2/catch.hpp>
#include <map>

namespace ddprun::trainer::nccl {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

Variables variables(const NcclWishes& wishes,
                    const std::map<std::string, std::string>& there = {}) {
  return nccl_variables(wishes, [&](const char* name) -> const char* {
    const auto found = there.find(name);
    return found == there.end() ? nullptr : found->second.c_str();
  });
}

TEST_CASE("ranks that share a GPU look like hosts of their own") {
  CHECK(variables({.rank = 3, .shares_gpus = true}) == Variables{{"NCCL_HOSTID", "ddprun-rank-3"}});
  CHECK(variables({.rank = 3, .shares_gpus = true}, {{"NCCL_HOSTID", "x"}}).empty());
}

TEST_CASE("sums of a switch, which may differ from call to call, are for --no-deterministic") {
  const NcclWishes wishes{.deterministic = true};
  CHECK(variables(wishes) == Variables{{"NCCL_NVLS_ENABLE", "0"}});
  CHECK(variables({.deterministic = false}).empty());
  CHECK(variables({.order = SumOrder::tree, .deterministic = true}).empty());
  CHECK(variables(wishes, {{"NCCL_ALGO", "NVLS"}}).empty());
  CHECK(variables(wishes, {{"NCCL_NVLS_ENABLE", "1"}}).empty());
}

}  // namespace
}  // namespace ddprun::trainer::nccl
