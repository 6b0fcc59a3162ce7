// Lines about what a run sets out to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "trainer/run/cli/environment.hpp"
#include "trainer/run/cli/options.hpp"
#include "trainer/run/plan/handover.hpp"

namespace ddprun::trainer {

/// `samples`: that are held out; `device`: its name.
std::string evaluation_text(const Options& options, const std::string& data, std::size_t samples,
                            int world_size, const std::string& device, int batch);

/// How a run goes on in another round, after `step`.
std::string handover_text(const Handover& handover, const WorkerEnvironment& environment,
                          std::int64_t step);

}  // namespace ddprun::trainer
