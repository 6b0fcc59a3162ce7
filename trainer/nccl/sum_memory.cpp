#include "trainer/nccl/sum_memory.hpp"

#include "trainer/nccl/host_bytes.hpp"
#include "trainer/nccl/narrow_sum.hpp"
#include "trainer/nccl/tree_sum.hpp"

namespace ddprun::trainer::nccl {

std::size_t gpu_bytes_of_sums(const CommOptions& options) {
  const bool is_tree = options.order == SumOrder::tree;
  return (is_tree ? TreeSum::received_bytes(options) : 0) +
         (options.grad_comm == Precision::fp32 ? 0 : NarrowSum::bytes(options)) +
         HostBytes::gpu_bytes(options.world_size);
}

}  // namespace ddprun::trainer::nccl
