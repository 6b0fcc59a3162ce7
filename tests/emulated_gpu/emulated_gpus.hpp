// Emulated GPUs in place of the machine's, for whole programs. DDPRUN_EMULATED_GPUS: how many are
// visible; _SEED: of their schedules; _MEMORY: bytes of each; _USED: of these, by other programs;
// _FREE: bytes that each says to be free;
// _FAILS=NUMBER:WORK: which of them fails, from which launch or library call on;
// _HANGS=NUMBER:WORK: which of them hangs there; _CAPTURES=0: none can capture a graph. NCCL is
// the fake beside the program.
#pragma once

#include <cstddef>
#include <string>

#include "trainer/run/plan/gpus.hpp"

namespace ddprun::trainer::test {

class EmulatedGpus final : public GpuSource {
 public:
  EmulatedGpus();
  FoundGpu find(const GpuQuestion& question) override;
  std::string versions() override { return "GPUs: emulated\n"; }

 private:
  std::size_t memory_;
};

}  // namespace ddprun::trainer::test
