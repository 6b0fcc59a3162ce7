// Whether a run fits into a GPU's memory, and the message where it does not.
#pragma once

#include <string>

#include "trainer/cuda/gpu.hpp"
#include "trainer/run/run_memory.hpp"

namespace ddprun::trainer {

/// What CUDA graphs of a model's steps take, about. `tokens`: of the longest text, of images 0;
/// `shards`: that this worker computes in a step.
std::uint64_t graph_bytes(const Graph& graph, int tokens, int shards);

/// What a worker is going to allocate in its GPU's memory; CUDA, its libraries and its graphs take
/// more.
std::uint64_t gpu_bytes(const RunMemory& planned);

/// What data sets may take of it. `free`: bytes that no program has, before this run takes any;
/// `workers` share the GPU.
std::uint64_t samples_most(const RunMemory& planned, std::uint64_t free, int workers);

/// "1.25 GB of the GPU", for the line at the start; with " (47 MB of it for data sets)" where these
/// stay there.
std::string gpu_memory_text(const RunMemory& planned);

/// Before anything is allocated: one line where the plans of the `workers` that have the GPU need
/// more than it has; empty: they may fit.
std::string why_too_large(const RunMemory& planned, const cuda::GpuFacts& gpu, int workers = 1);

/// After an allocation failed. `what`: the message of the GPU, with the bytes of that piece.
std::string out_of_memory_text(const RunMemory& planned, const std::string& what);

}  // namespace ddprun::trainer
