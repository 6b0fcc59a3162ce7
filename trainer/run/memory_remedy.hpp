// What a user can change about a run that needs too much memory.
#pragma once

#include <string>

#include "trainer/run/options.hpp"
#include "trainer/run/run_memory.hpp"

namespace ddprun::trainer {

/// `batch`: b of the run.
MemoryChoices memory_choices(const Options& options, int batch);

/// "use a smaller --batch, fewer --lanes or another --model": of the kinds that take a quarter of
/// `need` or more, and nothing that the run cannot have less of. `workers`: on this machine.
std::string memory_remedy(const RunMemory& need, int workers);

/// The same where the data sets alone are too large.
std::string data_remedy(const MemoryChoices& choices, int workers);

/// The same for the memory of a GPU that `workers` have.
std::string gpu_memory_remedy(const RunMemory& need, int workers = 1);

}  // namespace ddprun::trainer
