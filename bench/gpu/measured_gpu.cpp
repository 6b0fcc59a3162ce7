#include "bench/gpu/measured_gpu.hpp"

#include <exception>

#include "trainer/cuda/kernels/arena_kernels.hpp"

namespace ddprun::bench {
namespace {

using cuda::Stream;
using trainer::OptimizerKind;

/// More than counters and the state of a step: weights, which an evaluation or a checkpoint takes.
constexpr std::size_t kWeightsFrom = std::size_t{64} << 10;

template <class Kernel>
const Kernel* kernel_in(const cuda::Launch& launch) {
  return launch.kernel == cuda::PlaceIn<Kernel, cuda::AllKernels>::value
             ? static_cast<const Kernel*>(launch.arguments)
             : nullptr;
}

/// Bytes for each float of the arenas: gradient, weight and moments are read, all but the gradient
/// are written.
std::uint64_t update_traffic(const cuda::UpdateArena& update) {
  const int moments = (update.first == nullptr ? 0 : 1) + (update.second == nullptr ? 0 : 1);
  return sizeof(float) * static_cast<std::uint64_t>(3 + 2 * moments);
}

template <class Type>
std::uint64_t stored_bytes(const cuda::Launch& launch) {
  const auto* const store = kernel_in<cuda::StoreFloats<Type>>(launch);
  return store == nullptr ? 0 : store->count * (sizeof(float) + sizeof(Type));
}

}  // namespace

MeasuredGpu::~MeasuredGpu() {
  try {
    gpu_->synchronize(Stream::compute);
    while (!spans_.empty()) collect_oldest();
  } catch (const std::exception&) {
    // The run has failed, and told why.
  }
}

std::byte* MeasuredGpu::allocate(std::size_t bytes) {
  std::byte* const memory = gpu_->allocate(bytes);
  allocated_[memory] = bytes;
  return memory;
}
void MeasuredGpu::release(std::byte* memory) {
  allocated_.erase(memory);
  gpu_->release(memory);
}

/// Bytes of the allocation that begins there; 0: none does.
std::uint64_t MeasuredGpu::bytes_at(const void* memory) const {
  const auto found = allocated_.find(static_cast<const std::byte*>(memory));
  return found == allocated_.end() ? 0 : found->second;
}

MeasuredGpu::Piece MeasuredGpu::piece_of(const cuda::Launch& launch) const {
  Piece piece;
  if (const auto* const update = kernel_in<cuda::UpdateArena>(launch)) {
    piece.updates = true;
    piece.bytes = bytes_at(update->parameters) / sizeof(float) * update_traffic(*update);
  } else if (const auto* const find = kernel_in<cuda::FindNonFinite>(launch)) {
    piece.bytes = find->count * sizeof(float);
  } else {
    piece.bytes = stored_bytes<trainer::Half>(launch) + stored_bytes<trainer::BFloat16>(launch);
  }
  piece.ends_step = kernel_in<cuda::FinishStep>(launch) != nullptr;
  return piece;
}

template <class Call>
void MeasuredGpu::measure(Stream stream, const Piece& piece, const Call& call) {
  if (captured_) {
    captured_->bytes += piece.bytes;
    captured_->updates = captured_->updates || piece.updates;
    captured_->ends_step = captured_->ends_step || piece.ends_step;
    call();
    return;
  }
  if (stream != Stream::compute) {
    call();
    return;
  }
  Span span{take_event(), take_event(), piece};
  gpu_->record(span.begin, stream);
  call();
  gpu_->record(span.end, stream);
  spans_.push_back(span);
  collect_done();
}

void MeasuredGpu::copy_in(Stream stream, const std::byte* pinned, void* to, std::size_t bytes) {
  measure(stream, {}, [&] { gpu_->copy_in(stream, pinned, to, bytes); });
}
void MeasuredGpu::copy_out(Stream stream, const void* from, std::byte* pinned, std::size_t bytes) {
  measure(stream, {.is_other = bytes >= kWeightsFrom},
          [&] { gpu_->copy_out(stream, from, pinned, bytes); });
}
void MeasuredGpu::copy(Stream stream, const void* from, void* to, std::size_t bytes) {
  measure(stream, {}, [&] { gpu_->copy(stream, from, to, bytes); });
}
void MeasuredGpu::clear(Stream stream, void* memory, std::size_t bytes) {
  measure(stream, {}, [&] { gpu_->clear(stream, memory, bytes); });
}
void MeasuredGpu::launch(Stream stream, const cuda::Launch& launch) {
  measure(stream, piece_of(launch), [&] { gpu_->launch(stream, launch); });
}
void MeasuredGpu::multiply(Stream stream, const cuda::MatrixProduct& product) {
  measure(stream, {}, [&] { gpu_->multiply(stream, product); });
}
void MeasuredGpu::convolve(Stream stream, const cuda::ConvolutionCall& call) {
  measure(stream, {}, [&] { gpu_->convolve(stream, call); });
}

void MeasuredGpu::begin_capture(Stream stream) {
  gpu_->begin_capture(stream);
  captured_.emplace();
}
cuda::Captured MeasuredGpu::end_capture(Stream stream) {
  const Piece piece = captured_.value_or(Piece{});
  captured_.reset();
  const cuda::Captured graph = gpu_->end_capture(stream);
  graphs_.resize(static_cast<std::size_t>(graph) + 1);
  graphs_.back() = piece;
  return graph;
}
void MeasuredGpu::replay(Stream stream, cuda::Captured graph) {
  measure(stream, graphs_.at(static_cast<std::size_t>(graph)),
          [&] { gpu_->replay(stream, graph); });
}

cuda::Event MeasuredGpu::take_event() {
  if (unused_.empty()) return gpu_->make_timed_event();
  const cuda::Event event = unused_.back();
  unused_.pop_back();
  return event;
}

void MeasuredGpu::collect_done() {
  while (spans_.size() > 1 && gpu_->has_come(spans_.front().end)) collect_oldest();
}

void MeasuredGpu::collect_oldest() {
  const Span span = spans_.front();
  spans_.pop_front();
  times_.add({.gap = last_end_ ? gpu_->seconds_between(*last_end_, span.begin) : 0,
              .busy = gpu_->seconds_between(span.begin, span.end),
              .update_bytes = span.piece.updates ? span.piece.bytes : 0,
              .ends_step = span.piece.ends_step,
              .is_other = span.piece.is_other});
  unused_.push_back(span.begin);
  if (last_end_) unused_.push_back(*last_end_);
  last_end_ = span.end;
}

trainer::FoundGpu MeasuredGpus::find(const trainer::GpuQuestion& question) {
  trainer::FoundGpu found = gpus_.find(question);
  if (found.gpu) found.gpu = std::make_unique<MeasuredGpu>(std::move(found.gpu), times_);
  return found;
}

}  // namespace ddprun::bench
