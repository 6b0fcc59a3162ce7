// What the ranks of a job tell each other before NCCL is begun, and whether they fit together.
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "trainer/comm/make_communicator.hpp"
#include "trainer/comm/process_watch.hpp"

namespace ddprun::trainer::nccl {

/// What a rank tells the others before NCCL is begun.
struct Announcement {
  ProcessIdentity process;
  std::string host;  ///< its name
  std::string gpu;   ///< GpuFacts::uuid
  std::string card;  ///< GpuFacts::card
  int version = 0;   ///< of NCCL
  int world_size = 0;
  int shards = 0;
  SumOrder order = SumOrder::tree;
  std::size_t arena_floats = 0;

  [[nodiscard]] std::string text() const;
  static std::optional<Announcement> parse(const std::string& text);
};

/// Why these ranks cannot form a group, naming two of them; empty: they can. `shares_gpus`: several
/// ranks may have one GPU.
std::string why_not(const std::vector<Announcement>& ranks, bool shares_gpus);

}  // namespace ddprun::trainer::nccl
