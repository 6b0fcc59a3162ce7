// Makes the memory of all ranks' sums known to their communicator: on all ranks, or on none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/comm/exchange.hpp"
#include "trainer/comm/make_communicator.hpp"
#include "trainer/nccl/nccl_group.hpp"
#include "trainer/nccl/sum_buffers.hpp"

namespace ddprun::trainer::nccl {

/// The handles of one communicator. An abort of the communicator ends them, too.
class Registration {
 public:
  /// Holds nothing.
  Registration() = default;
  Registration(const Functions& call, Comm comm, BufferKind kind)
      : call_(&call), comm_(comm), kind_(kind) {}

  [[nodiscard]] BufferKind kind() const { return kind_; }
  /// Where NCCL writes the next handle: it may do so until the call is done.
  [[nodiscard]] void** add() { return handles_.emplace_back(std::make_unique<void*>()).get(); }
  /// Whether NCCL has registered all: a handle may be null though the call succeeded.
  [[nodiscard]] bool is_whole() const;
  /// Deregisters all under the watch (null: none), and is of plain buffers then. Before
  /// ncclCommDestroy, once no rank sums.
  void end(cuda::CallWatch* calls);
  /// NCCL may still write the handles: they are never freed.
  void leave();

 private:
  const Functions* call_ = nullptr;
  Comm comm_ = nullptr;
  BufferKind kind_ = BufferKind::plain;
  std::vector<std::unique_ptr<void*>> handles_;
};

struct RegistrationOptions {
  const CommOptions& comm;
  const SumBuffers& buffers;
  std::string gpu;                   ///< of this rank: name and uuid
  cuda::CallWatch* calls = nullptr;  ///< NcclSettings::calls
};

struct RegistrationSetup {
  Registration registration;
  CommResult result;     ///< not done: group.comm is null, aborted unless `is_left`
  bool is_left = false;  ///< a call hangs: NCCL may still use the memory
  std::string warning;   ///< this rank is why all have plain buffers
};

/// As common_buffers() of the group, else as the next best. Every rank calls it, with as much
/// memory where windows are to be had; returns when all have, or by `deadline`.
///
/// ncclCommRegister concerns one rank. Where it fails on one, all go on with plain buffers.
/// ncclCommWindowRegister is a call of all ranks that leaves its error in the communicator: nothing
/// can be summed with that any more.
RegistrationSetup register_for_all(const RegistrationOptions& options, const Functions& call,
                                   Group& group, Exchange& exchange, Clock::time_point deadline);

}  // namespace ddprun::trainer::nccl
