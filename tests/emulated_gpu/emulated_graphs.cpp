// The graphs of the emulated GPU: what was captured, and its replays.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/emulated_gpu/emulated_gpu.hpp"

namespace ddprun::trainer::test {

using cuda::GpuError;
using cuda::Stream;

/// As with CUDA, nothing comes of the capture then.
void EmulatedGpu::refuse_in_capture(const char* call) {
  if (!capturing_) return;
  is_capture_invalid_ = true;
  throw GpuError(fmt::format("{}: a graph is being captured", call));
}

void EmulatedGpu::begin_capture(Stream stream) {
  refuse_in_capture("begin_capture");
  if (!settings_.captures) throw GpuError("begin_capture failed, as the test has planned");
  capturing_ = true;
  is_capture_invalid_ = false;
  captures_ = {};
  captures_[static_cast<std::size_t>(stream)] = true;
  recorded_in_capture_.clear();
  captured_ = {};
  captured_works_ = 0;
}

cuda::Captured EmulatedGpu::end_capture(Stream stream) {
  if (!capturing_ || !captures_[static_cast<std::size_t>(stream)])
    throw GpuError("end_capture: this stream is not being captured");
  capturing_ = false;
  if (is_capture_invalid_) throw GpuError("end_capture: the capture was invalidated");
  graphs_.push_back(std::make_shared<Graph>(Graph{std::move(captured_), captured_works_}));
  captured_ = {};
  return static_cast<cuda::Captured>(graphs_.size() - 1);
}

std::size_t EmulatedGpu::nodes(cuda::Captured captured) const {
  std::size_t count = 0;
  for (const auto& queue : graphs_.at(static_cast<std::size_t>(captured))->queues)
    for (const Work& work : queue) count += work.kind == Work::Kind::run ? 1 : 0;
  return count;
}

void EmulatedGpu::replay(Stream stream, cuda::Captured captured) {
  const std::shared_ptr<Graph> graph = graphs_.at(static_cast<std::size_t>(captured));
  if (!graph) throw GpuError("replay: the graph was released");
  ++calls_;
  count_works(stream, "replay", graph->works);
  run(stream, [this, graph] {
    Queues left = graph->queues;
    // What the graph's streams wait for has to come again.
    for (const auto& queue : left)
      for (const Work& work : queue)
        if (work.kind == Work::Kind::record) events_[work.event].come = 0;
    // Without the watch: it looks at events, and the stream's next work could run before the rest.
    while (run_some(left)) {
    }
    for (const auto& queue : left)
      if (!queue.empty())
        throw GpuError("replay: the graph's streams wait for each other for ever");
  });
}

void EmulatedGpu::release(cuda::Captured captured) noexcept {
  graphs_[static_cast<std::size_t>(captured)] = nullptr;
}

std::size_t EmulatedGpu::graph_nodes() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < graphs_.size(); ++i)
    if (graphs_[i]) count += nodes(static_cast<cuda::Captured>(i));
  return count;
}

std::size_t EmulatedGpu::graphs() const {
  return static_cast<std::size_t>(std::count_if(
      graphs_.begin(), graphs_.end(), [](const auto& graph) { return graph != nullptr; }));
}

}  // namespace ddprun::trainer::test
