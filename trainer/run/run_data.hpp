// The data sets of a run: whether they fit into memory, and whether the model can read them.
#pragma once

#include "trainer/data/load.hpp"
#include "trainer/model/graph.hpp"
#include "trainer/run/machine_memory.hpp"
#include "trainer/run/options.hpp"

namespace ddprun::trainer {

/// Loads what the options ask for. Throws DataError, also where the sets of all `workers` on this
/// machine never fit into `there`: before they are loaded if their sizes are known by then.
TrainAndTest load_sets(const Options& options, int workers, const MachineMemory& there);

/// Before training, so that no step meets a text that the model cannot read. Throws DataError.
void check_sets(const TrainAndTest& sets, const Graph& graph);

}  // namespace ddprun::trainer
