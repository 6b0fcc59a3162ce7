#include "trainer/run/gpus.hpp"

#include <catch2/catch.hpp>

#include "trainer/cuda/graph_nodes.hpp"
#include "trainer/error.hpp"
#include "trainer/model/model.hpp"
#include "trainer/run/gpu_memory.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Contains;

/// Has no GPU to give.
class NoGpus final : public GpuSource {
 public:
  explicit NoGpus(FoundGpu (*answer)()) : answer_(answer) {}
  FoundGpu find(const GpuQuestion& question) override {
    asked = question;
    ++times;
    return answer_();
  }
  std::string versions() override { return ""; }

  GpuQuestion asked;
  int times = 0;

 private:
  FoundGpu (*answer_)();
};

FoundGpu not_found(const char* why, bool nothing_there) {
  FoundGpu found;
  found.why_not = why;
  found.nothing_there = nothing_there;
  return found;
}

TEST_CASE("the option --device=cpu asks for no GPU") {
  NoGpus gpus([] { return not_found("x", false); });
  Options options;
  options.device = DeviceKind::cpu;
  const ChosenDevice chosen = choose_device(options, {}, gpus);
  CHECK(gpus.times == 0);
  CHECK((chosen.name == "the CPU" && chosen.warning.empty() && !chosen.gpu));
}

TEST_CASE(
    "the option --device=auto trains on the CPU and warns with the reason, unless there is no "
    "driver") {
  NoGpus none([] { return not_found("no NVIDIA driver was found", true); });
  CHECK(choose_device({}, {}, none).warning.empty());
  CHECK(none.asked.only_if_likely);
  NoGpus old([] { return not_found("the driver is too old", false); });
  CHECK(choose_device({}, {}, old).warning ==
        "--device auto: training on the CPU, as the driver is too old");
  NoGpus broken([]() -> FoundGpu { throw DataError("cuDNN 9 cannot be used"); });
  CHECK_THAT(choose_device({}, {}, broken).warning, Contains("cuDNN 9 cannot be used"));
  NoGpus faulty([]() -> FoundGpu { throw cuda::GpuError("cudaSetDevice failed"); });
  CHECK_THAT(choose_device({}, {}, faulty).warning, Contains("as cudaSetDevice failed"));
}

TEST_CASE("tf32 is refused where auto finds no GPU, with the reason and what to take") {
  NoGpus none([] { return not_found("no NVIDIA driver was found", true); });
  Options options;
  options.precision = Precision::tf32;
  CHECK_THROWS_WITH(choose_device(options, {}, none),
                    "--precision=tf32 is for GPUs, but this worker trains on the CPU, as no NVIDIA "
                    "driver was found: take --precision=fp32, or a GPU");
}

TEST_CASE("NVIDIA_TF32_OVERRIDE is warned of where it turns fp32 into tf32, or the other way") {
  const auto environment_with = [](const char* value) {
    return read_environment([value](const char* name) {
      return std::string(name) == "NVIDIA_TF32_OVERRIDE" ? value : nullptr;
    });
  };
  Options options;
  CHECK_THAT(gpu_warning(options, environment_with("1")),
             Contains("NVIDIA_TF32_OVERRIDE=1") && Contains("tf32"));
  CHECK(gpu_warning(options, environment_with("0")).empty());
  CHECK(gpu_warning(options, environment_with(nullptr)).empty());
  options.precision = Precision::tf32;
  CHECK(gpu_warning(options, environment_with("1")).empty());
  CHECK(gpu_warning(options, environment_with(nullptr)).empty());
  CHECK_THAT(gpu_warning(options, environment_with("0")),
             Contains("NVIDIA_TF32_OVERRIDE=0") && Contains("--precision tf32 in fp32"));
  options.precision = Precision::bf16;
  CHECK(gpu_warning(options, environment_with("1")).empty());
  CHECK(gpu_warning(options, environment_with("0")).empty());
}

TEST_CASE("where CUDA_VISIBLE_DEVICES hides all GPUs, auto trains on the CPU without a warning") {
  for (const char* none : {"", "-1"}) {
    NoGpus gpus([] { return not_found("x", false); });
    WorkerEnvironment environment;
    environment.visible_gpus = none;
    const ChosenDevice chosen = choose_device({}, environment, gpus);
    CHECK((gpus.times == 0 && chosen.name == "the CPU" && chosen.warning.empty()));
    Options options;
    options.device = DeviceKind::cuda;
    CHECK_THROWS_WITH(
        choose_device(options, environment, gpus),
        Contains("--device cuda: CUDA_VISIBLE_DEVICES=") && Contains("hides all GPUs: unset it"));
  }
}

TEST_CASE("the option --device=cuda without a GPU is refused with the reason") {
  NoGpus gpus([] { return not_found("no NVIDIA driver was found", true); });
  Options options;
  options.device = DeviceKind::cuda;
  CHECK_THROWS_WITH(choose_device(options, {}, gpus), "--device cuda: no NVIDIA driver was found");
  CHECK(!gpus.asked.only_if_likely);
  NoGpus faulty([]() -> FoundGpu { throw cuda::GpuError("cudaSetDevice failed"); });
  CHECK_THROWS_WITH(choose_device(options, {}, faulty), "rank 0: cudaSetDevice failed");
  NoGpus full([]() -> FoundGpu { throw cuda::OutOfGpuMemory("64 bytes were asked for"); });
  CHECK_THROWS_WITH(choose_device(options, {}, full),
                    "--device cuda: out of GPU memory: 64 bytes were asked for");
}

TEST_CASE("GPUs are asked for by rank, precision and determinism") {
  NoGpus gpus([] { return not_found("x", false); });
  Options options;
  options.precision = Precision::bf16;
  options.no_deterministic = true;
  WorkerEnvironment environment;
  environment.world_size = 4;
  environment.local_world_size = 2;
  environment.local_rank = 1;
  choose_device(options, environment, gpus);
  CHECK_FALSE(gpus.asked.request.shares);
  options.share_gpu = true;
  choose_device(options, environment, gpus);
  CHECK(gpus.asked.request.shares);
  CHECK((gpus.asked.several_ranks && !gpus.asked.deterministic && !gpus.asked.tf32));
  CHECK(gpus.asked.request.newer_type == "bf16");
  options.precision = Precision::tf32;
  CHECK_THROWS_AS(choose_device(options, environment, gpus), DataError);  // as there is none
  CHECK((gpus.asked.tf32 && gpus.asked.request.newer_type == "tf32"));
  CHECK((gpus.asked.request.local_rank == 1 && gpus.asked.request.local_world_size == 2));
}

TEST_CASE("what sums receive and the buffers of inputs count as the GPU's memory") {
  RunMemory planned{.arena = 1'000'000, .arenas = 3, .lane = 2'000'000, .lanes = 1};
  planned.inputs = 500'000;
  planned.exchange = 4'000'000;
  CHECK(gpu_bytes(planned) == 9'500'000);
  CHECK(gpu_memory_text(planned) == "10 MB of the GPU");
  planned.rounded_weights = 500'000;
  CHECK(gpu_bytes(planned) == 10'000'000);
  CHECK_THAT(out_of_memory_text(planned, "x"),
             Contains("2 MB for the samples of a shard, 500 kB for rounded weights, 4 MB for the "
                      "exchange with other"));
}

TEST_CASE("CUDA graphs count as far as they are kept, but refuse no run") {
  const Graph images = make_graph({.model = ModelName::lenet, .shape = {28, 28, 1}, .classes = 10});
  const std::uint64_t one = graph_bytes(images, 0, 1);
  // Whole shards and the last, smaller ones, in training and in evaluation.
  const std::size_t nodes = cuda::graph_nodes(images);
  CHECK(one == 3 * nodes * 10'000);
  // From the second one on sums are added to.
  CHECK(graph_bytes(images, 0, 2) == 5 * nodes * 10'000);
  CHECK(graph_bytes(images, 0, 8) == graph_bytes(images, 0, 2));
  const Graph texts = make_graph({.model = ModelName::textclf, .classes = 2, .vocabulary = 40});
  CHECK(graph_bytes(texts, 100, 1) == 4 * graph_bytes(texts, 20, 1));
  CHECK(graph_bytes(texts, 512, 8) <= 10'000 * Capture::kNodesMost);
  // As captured_work.hpp says of the deepest models.
  const Graph large = make_graph(
      {.model = ModelName::textclf, .classes = 2, .vocabulary = 50'265, .size = TextSize::large});
  CHECK(cuda::graph_nodes(large) == Approx(1300).epsilon(0.05));
  const Graph masks = make_graph({.model = ModelName::unet_resnet101, .shape = {64, 64, 3}});
  CHECK(cuda::graph_nodes(masks) == Approx(1500).epsilon(0.05));

  const RunMemory planned{
      .arena = 1'000'000, .arenas = 3, .lane = 2'000'000, .lanes = 1, .graphs = 3'000'000};
  CHECK(gpu_memory_text(planned) == "8 MB of the GPU");
  const cuda::GpuFacts gpu{.name = "GPU", .uuid = {}, .memory = 5'000'000, .libraries = {}};
  CHECK(why_too_large(planned, gpu).empty());
  CHECK_THAT(out_of_memory_text(planned, "x"), Contains(", about 3 MB for CUDA graphs, and CUDA"));
}

TEST_CASE("a plan is compared with the GPU's memory, without what is the host's") {
  const RunMemory planned{.arena = 1'000'000,
                          .arenas = 5,
                          .lane = 6'000'000,
                          .lanes = 1,
                          .host_arenas = 2,
                          .host_lane = 1'000'000,
                          .choices = {.batch = 2}};
  CHECK(gpu_bytes(planned) == 8'000'000);
  cuda::GpuFacts gpu{.name = "NVIDIA H200", .uuid = {}, .memory = 8'000'000, .libraries = {}};
  CHECK(why_too_large(planned, gpu).empty());
  CHECK_THAT(why_too_large(planned, gpu, 2), Contains("the 2 workers on this GPU need 16 MB") &&
                                                 Contains("each: ") && Contains("fewer workers"));
  gpu.memory -= 1;
  CHECK_THAT(why_too_large(planned, gpu), Contains("8 MB") && Contains("3 arenas of 1 MB") &&
                                              Contains("5 MB for the samples") &&
                                              Contains("NVIDIA H200 has") && Contains("--batch"));
  CHECK_THAT(why_too_large(planned, gpu), !Contains("with other workers"));
  CHECK_THAT(out_of_memory_text(planned, "7 bytes were asked for"),
             Contains("out of GPU memory: 7 bytes were asked for") && Contains("3 arenas of 1 MB"));
}

}  // namespace
}  // namespace ddprun::trainer
