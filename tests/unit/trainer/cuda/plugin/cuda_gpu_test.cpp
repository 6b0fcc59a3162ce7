// How far ahead of a GPU the plugin lets the host be, and what ends its waits. CUDA's runtime,
// launches and libraries are the test's own.
#include "trainer/cuda/plugin/cuda_gpu.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/unit/trainer/cuda/plugin/fake_streams.hpp"
#include "trainer/cuda/launch_limit.hpp"
#include "trainer/cuda/plugin/all_launchers.hpp"
#include "trainer/cuda/plugin/convolutions.hpp"
#include "trainer/cuda/plugin/matrix_products.hpp"

namespace ddprun::trainer::cuda {

// In place of the libraries' parts, which have tests of their own: each call puts as many
// operations on the stream as launch_limit.hpp expects at most.
struct MatrixProducts::Prepared {};
MatrixProducts::MatrixProducts(const CublasLt& cublas, const GpuName& gpu, bool tf32)
    : cublas_(cublas), gpu_(gpu), tf32_(tf32) {}
MatrixProducts::~MatrixProducts() = default;
void MatrixProducts::multiply(cudaStream_t stream, const MatrixProduct& /*product*/) {
  test::give(stream, kProductOperations);
}

struct Convolutions::Prepared {};
Convolutions::Convolutions(const Cudnn& cudnn, const GpuName& gpu, Settings settings)
    : cudnn_(cudnn), gpu_(gpu), settings_(settings) {}
Convolutions::~Convolutions() = default;
std::size_t Convolutions::workspace_bytes(ConvolutionPass /*pass*/,
                                          const ConvolutionShape& /*shape*/) {
  return 0;
}
void Convolutions::convolve(cudaStream_t stream, const ConvolutionCall& call,
                            const std::function<void(const Launch&)>& launch) {
  test::give(stream, kConvolutionOperations);
  if (call.pass == ConvolutionPass::weight_gradient) launch(launch_of(WidenValues<Half>{}, 1));
}

CublasLt open_cublaslt(const LibraryPlaces& /*places*/) {
  CublasLt cublas{};
  cublas.library.handle = std::make_shared<int>(0);
  return cublas;
}
std::string CublasLt::version_text() const { return "cuBLASLt of the test"; }
Cudnn open_cudnn(const LibraryPlaces& /*places*/) {
  Cudnn cudnn{};
  cudnn.library.handle = std::make_shared<int>(0);
  return cudnn;
}
std::string Cudnn::version_text() const { return "cuDNN of the test"; }

std::vector<KernelLauncher> all_launchers() {
  const KernelLauncher launcher = [](const void*, unsigned, cudaStream_t stream) {
    test::give(stream, 1);
    return cudaSuccess;
  };
  return std::vector<KernelLauncher>(AllKernels::kSize, launcher);
}
std::string kernel_name(int /*number*/) { return "a kernel"; }

namespace {

using test::fake_streams;

/// A GPU of the plugin. The streams before it are forgotten.
std::unique_ptr<Gpu> open_gpu() {
  fake_streams() = {};
  return make_cuda_gpu({});
}

Launch any_kernel() { return launch_of(WidenValues<Half>{}, 1); }

struct Kind {
  const char* name;
  std::function<void(Gpu&, Captured)> call;
};

const Kind kKinds[] = {
    {"launch", [](Gpu& gpu, Captured) { gpu.launch(Stream::compute, any_kernel()); }},
    {"multiply", [](Gpu& gpu, Captured) { gpu.multiply(Stream::compute, {}); }},
    {"convolve", [](Gpu& gpu, Captured) { gpu.convolve(Stream::compute, {}); }},
    {"weight gradient",
     [](Gpu& gpu, Captured) {
       gpu.convolve(Stream::compute, {.pass = ConvolutionPass::weight_gradient, .shape = {}});
     }},
    {"copy_in", [](Gpu& gpu, Captured) { gpu.copy_in(Stream::copy, nullptr, nullptr, 1); }},
    {"copy_out", [](Gpu& gpu, Captured) { gpu.copy_out(Stream::copy, nullptr, nullptr, 1); }},
    {"copy", [](Gpu& gpu, Captured) { gpu.copy(Stream::communication, nullptr, nullptr, 1); }},
    {"clear", [](Gpu& gpu, Captured) { gpu.clear(Stream::communication, nullptr, 1); }},
    {"replay", [](Gpu& gpu, Captured graph) { gpu.replay(Stream::compute, graph); }},
};

Captured any_graph(Gpu& gpu) {
  gpu.begin_capture(Stream::compute);
  gpu.launch(Stream::compute, any_kernel());
  return gpu.end_capture(Stream::compute);
}

TEST_CASE("whatever the host gives a GPU, fewer than 1000 operations of a stream are pending") {
  const bool is_watched = GENERATE(false, true);
  for (const Kind& kind : kKinds) {
    INFO(kind.name << (is_watched ? ", watched" : ""));
    const auto gpu = open_gpu();
    if (is_watched) gpu->set_watch([](auto) {});
    fake_streams().nodes = 100;
    const Captured graph = any_graph(*gpu);
    for (int i = 0; i < 3000; ++i) kind.call(*gpu, graph);
    CHECK(fake_streams().most_pending < 1000);
    CHECK(fake_streams().most_pending >= 2 * LaunchLimit::kOperationsPerEvent);  // it gets ahead
  }
}

TEST_CASE("streams are counted each for itself") {
  const auto gpu = open_gpu();
  for (int i = 0; i < 500; ++i) {
    gpu->copy(Stream::copy, nullptr, nullptr, 1);
    gpu->copy(Stream::compute, nullptr, nullptr, 1);
  }
  // 1000 together: nobody waits yet.
  CHECK(fake_streams().most_pending == 500);
}

TEST_CASE("a capture of any length is not waited for") {
  const auto gpu = open_gpu();
  const Captured graph = any_graph(*gpu);
  gpu->begin_capture(Stream::compute);
  for (const Kind& kind : kKinds)
    if (kind.name != std::string("replay"))
      for (int i = 0; i < 3000; ++i) kind.call(*gpu, graph);
  static_cast<void>(gpu->end_capture(Stream::compute));
  CHECK(fake_streams().waits_in_capture == 0);
  CHECK(fake_streams().most_pending == 0);
}

TEST_CASE("a host that waits for a GPU that hangs is ended by the watch, and nothing is freed") {
  const auto gpu = open_gpu();
  std::byte* const pinned = gpu->allocate_pinned(8);
  fake_streams().hangs = true;
  std::chrono::steady_clock::duration longest{};
  gpu->set_watch([&](std::chrono::steady_clock::duration waited) {
    longest = std::max(longest, waited);
    if (waited > std::chrono::milliseconds(5)) throw std::runtime_error("it hangs");
  });
  const auto launch_many = [&] {
    for (int i = 0; i < 3000; ++i) gpu->launch(Stream::compute, any_kernel());
  };
  CHECK_THROWS_WITH(launch_many(), "it hangs");
  CHECK(longest > std::chrono::milliseconds(5));
  CHECK(fake_streams().most_pending < 1000);
  CHECK_THROWS_WITH(gpu->synchronize(Stream::compute), "it hangs");
  CHECK_THROWS_WITH(gpu->allocate(8), "it hangs");
  gpu->release_pinned(pinned);
  CHECK(fake_streams().freed == 0);
  fake_streams().hangs = false;
}

TEST_CASE("only timed events tell the time between them") {
  const auto gpu = open_gpu();
  const Event first = gpu->make_timed_event();
  const Event last = gpu->make_timed_event();
  const Event other = gpu->make_event();
  gpu->record(first, Stream::compute);
  for (int i = 0; i < 20; ++i) gpu->launch(Stream::compute, any_kernel());
  gpu->record(last, Stream::compute);
  CHECK(gpu->seconds_between(first, last) == Approx(0.02));
  CHECK_THROWS_WITH(gpu->seconds_between(first, other),
                    Catch::Contains("cudaEventElapsedTime failed on GPU 0"));
}

TEST_CASE("a wait that comes to its end is measured anew each time") {
  const auto gpu = open_gpu();
  int looks = 0;
  gpu->set_watch([&](std::chrono::steady_clock::duration waited) {
    ++looks;
    if (waited > std::chrono::seconds(20)) throw std::runtime_error("waits were added up");
  });
  const Event event = gpu->make_event();
  for (int i = 0; i < 10; ++i) {
    gpu->launch(Stream::compute, any_kernel());
    gpu->record(event, Stream::compute);
    gpu->synchronize(event);
  }
  CHECK(looks == 10);
}

}  // namespace
}  // namespace ddprun::trainer::cuda
