// The data sets of a run: whether they fit into memory, and whether the model can read them.
#pragma once

#include "trainer/data/load.hpp"
#include "trainer/data/sample_reader.hpp"
#include "trainer/model/graph.hpp"
#include "trainer/run/cli/options.hpp"
#include "trainer/run/plan/plan.hpp"
#include "trainer/run/plan/run_memory.hpp"

namespace ddprun::trainer {

/// Loads what the options ask for. Throws DataError, also where the sets of all `workers` on this
/// machine never fit into `there`: before they are loaded if their sizes are known by then. Image
/// files that take more than data_memory() stay files. `loads_alone`: the other workers have their
/// sets and wait, so that all cores are free.
TrainAndTest load_sets(const Options& options, int workers, const MachineMemory& there,
                       bool loads_alone = false);

/// --data-memory, else half of what each of `workers` on this machine may take.
std::uint64_t data_memory(const Options& options, int workers, const MachineMemory& there);

/// How a worker reads images that are decoded in each epoch.
SampleReader::Settings reader_settings(const TrainPlan& plan, const WorkerEnvironment& environment);
/// Bytes of the samples that wait for it, of both sets.
std::uint64_t reader_bytes(const TrainAndTest& sets, const SampleReader::Settings& settings);

/// Host memory of a batch of samples on their way to the device. `stored`: pictures as the data set
/// has them.
std::uint64_t batch_bytes(const Graph& graph, int batch, ImageShape stored);

/// Before training, so that no step meets a text that the model cannot read. Throws DataError.
void check_sets(const TrainAndTest& sets, const Graph& graph);

}  // namespace ddprun::trainer
