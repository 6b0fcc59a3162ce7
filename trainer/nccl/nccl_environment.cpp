#include "trainer/nccl/nccl_environment.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace ddprun::trainer::nccl {

std::vector<std::pair<std::string, std::string>> nccl_variables(
    const NcclWishes& wishes, const std::function<const char*(const char*)>& lookup) {
  std::vector<std::pair<std::string, std::string>> variables;
  if (wishes.shares_gpus && lookup("NCCL_HOSTID") == nullptr)
    variables.emplace_back("NCCL_HOSTID", fmt::format("ddprun-rank-{}", wishes.rank));
  // If the user chooses algorithms, this one may be among them.
  const bool is_chosen = lookup("NCCL_ALGO") != nullptr || lookup("NCCL_NVLS_ENABLE") != nullptr;
  if (wishes.deterministic && wishes.order == SumOrder::chain && !is_chosen)
    variables.emplace_back("NCCL_NVLS_ENABLE", "0");
  return variables;
}

void set_nccl_variables(const NcclWishes& wishes) {
  for (const auto& [name, value] :
       nccl_variables(wishes, [](const char* name) { return std::getenv(name); }))
    setenv(name.c_str(), value.c_str(), 0);
}

}  // namespace ddprun::trainer::nccl
