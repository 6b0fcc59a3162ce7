#include "tests/unit/trainer/cuda/plugin/fake_streams.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ddprun::trainer::cuda::test {
namespace {

/// That are done from one question of the host to the next.
constexpr std::uint64_t kDoneBetweenQuestions = 64;

template <class Handle>
Handle handle_of(std::size_t place) {
  return reinterpret_cast<Handle>(place + 1);
}
template <class Handle>
std::size_t place_of(Handle handle) {
  return reinterpret_cast<std::size_t>(handle) - 1;
}

FakeStreams::Stream& at(std::size_t stream) { return fake_streams().streams.at(stream); }

cudaError_t wait_for(std::size_t stream, std::uint64_t position) {
  FakeStreams& all = fake_streams();
  all.waits_in_capture += all.captures ? 1 : 0;
  if (all.hangs) {
    std::fputs("fake CUDA: the host waits for ever\n", stderr);
    std::abort();
  }
  at(stream).done = std::max(at(stream).done, position);
  return cudaSuccess;
}

cudaError_t ask(std::size_t stream, std::uint64_t position) {
  FakeStreams& all = fake_streams();
  all.waits_in_capture += all.captures ? 1 : 0;
  FakeStreams::Stream& one = at(stream);
  if (one.done >= position) return cudaSuccess;
  if (!all.hangs) one.done = std::min(one.done + kDoneBetweenQuestions, one.given);
  return cudaErrorNotReady;
}

}  // namespace

FakeStreams& fake_streams() {
  static FakeStreams streams;
  return streams;
}

void give(cudaStream_t stream, std::uint64_t operations) {
  FakeStreams& all = fake_streams();
  if (all.captures) return;
  FakeStreams::Stream& one = at(place_of(stream));
  one.given += operations;
  all.most_pending = std::max(all.most_pending, one.given - one.done);
}

extern "C" {

cudaError_t cudaSetDevice(int /*number*/) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*number*/) {
  *properties = {};
  std::strcpy(properties->name, "a GPU of the test");
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* all) {
  *free = *all = 0;
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  ++fake_streams().freed;
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -1;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned /*flags*/,
                                         int /*priority*/) {
  fake_streams().streams.emplace_back();
  *stream = handle_of<cudaStream_t>(fake_streams().streams.size() - 1);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t /*stream*/) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return ask(place_of(stream), at(place_of(stream)).given);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return wait_for(place_of(stream), at(place_of(stream)).given);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t /*stream*/, cudaEvent_t /*event*/,
                                unsigned /*flags*/) {
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  fake_streams().events.push_back({.is_timed = (flags & cudaEventDisableTiming) == 0});
  *event = handle_of<cudaEvent_t>(fake_streams().events.size() - 1);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t last) {
  const auto& events = fake_streams().events;
  if (!events.at(place_of(first)).is_timed || !events.at(place_of(last)).is_timed)
    return cudaErrorInvalidResourceHandle;
  *milliseconds =
      static_cast<float>(events.at(place_of(last)).position - events.at(place_of(first)).position);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t /*event*/) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::size_t place = place_of(stream);
  FakeStreams::Event& one = fake_streams().events.at(place_of(event));
  one.stream = place;
  one.position = at(place).given;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const FakeStreams::Event& one = fake_streams().events.at(place_of(event));
  return ask(one.stream, one.position);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const FakeStreams::Event& one = fake_streams().events.at(place_of(event));
  return wait_for(one.stream, one.position);
}

cudaError_t cudaMemcpyAsync(void* /*to*/, const void* /*from*/, size_t /*bytes*/,
                            cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  give(stream, 1);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* /*memory*/, int /*value*/, size_t /*bytes*/,
                            cudaStream_t stream) {
  give(stream, 1);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t /*stream*/, cudaStreamCaptureMode /*mode*/) {
  fake_streams().captures = true;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t /*stream*/, cudaGraph_t* graph) {
  fake_streams().captures = false;
  *graph = handle_of<cudaGraph_t>(0);
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t /*graph*/, cudaGraphNode_t* /*all*/, size_t* count) {
  *count = fake_streams().nodes;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t /*graph*/,
                                 unsigned long long /*flags*/) {
  *made = handle_of<cudaGraphExec_t>(0);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t /*graph*/) { return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t /*graph*/) { return cudaSuccess; }
cudaError_t cudaGraphUpload(cudaGraphExec_t /*graph*/, cudaStream_t /*stream*/) {
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t /*graph*/, cudaStream_t stream) {
  give(stream, fake_streams().nodes);
  return cudaSuccess;
}

}  // extern "C"

}  // namespace ddprun::trainer::cuda::test
