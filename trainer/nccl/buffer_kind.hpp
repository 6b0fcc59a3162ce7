// How NCCL knows the memory that gradients are summed in: which ways this rank can take.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/comm/shard_tree.hpp"
#include "trainer/nccl/nccl_api.hpp"

namespace ddprun::trainer::nccl {

/// In this order: each kind needs more of NCCL than the one before.
enum class BufferKind {
  plain,       ///< not at all: it copies through buffers of its own
  registered,  ///< by ncclCommRegister: sends, receives and switches (NVLS) copy less
  windows,     ///< by ncclCommWindowRegister: kernels of their own read and write all ranks' memory
};

/// "plain", "registered", "window".
const char* text_of(BufferKind kind);

struct BufferWishes {
  SumOrder order = SumOrder::chain;
  bool deterministic = true;  ///< the same sums give the same bits in every run
};

/// The best for such sums that this library has, and that the user has not switched off. `lookup`:
/// the value of a variable, or null. Pure.
///
/// - Sends and receives (SumOrder::tree): registered. The order of additions is not NCCL's.
/// - NCCL's sums: windows, else registered; but plain where they are to be deterministic. Their
///   kernels' order of additions is not documented. Rings and trees, which are left without NVLS,
///   take no registered memory for sums in place.
/// - NCCL_WIN_ENABLE=0 and NCCL_LOCAL_REGISTER=0 are NCCL's own switches. It reads them on each
///   rank alone, where all have to do the same.
BufferKind best_buffers(const BufferWishes& wishes, const Functions& call,
                        const std::function<const char*(const char*)>& lookup);

}  // namespace ddprun::trainer::nccl
