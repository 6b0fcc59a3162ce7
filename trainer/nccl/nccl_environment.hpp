// Environment variables of NCCL that train sets in its own process, where the user has not. NCCL
// reads each of them once.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/comm/shard_tree.hpp"

namespace ddprun::trainer::nccl {

struct NcclWishes {
  int rank = 0;
  SumOrder order = SumOrder::chain;
  bool shares_gpus = false;    ///< several ranks may have one GPU
  bool deterministic = false;  ///< the same sums give the same bits in every run
};

/// Names and values. `lookup`: the value of a variable, or null. Pure.
///
/// NCCL_HOSTID: ranks that share a GPU look like hosts of one GPU each, which NCCL accepts.
/// NCCL_NVLS_ENABLE=0: a switch that adds by itself (NVLink SHARP) may do so in another order at
/// each call. Rings and trees add in the order of the machine's connections. Sums in the shard
/// tree's order are not NCCL's.
std::vector<std::pair<std::string, std::string>> nccl_variables(
    const NcclWishes& wishes, const std::function<const char*(const char*)>& lookup);

/// Sets them. Before the first communicator, and while no other thread reads the environment.
void set_nccl_variables(const NcclWishes& wishes);

}  // namespace ddprun::trainer::nccl
