#include "trainer/run/plan/gpus.hpp"

#include <catch2/catch.hpp>

#include "trainer/error.hpp"

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
  options.device.kind = DeviceKind::cpu;
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
  options.precision.format = Precision::tf32;
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
  options.precision.format = Precision::tf32;
  CHECK(gpu_warning(options, environment_with("1")).empty());
  CHECK(gpu_warning(options, environment_with(nullptr)).empty());
  CHECK_THAT(gpu_warning(options, environment_with("0")),
             Contains("NVIDIA_TF32_OVERRIDE=0") && Contains("--precision tf32 in fp32"));
  options.precision.format = Precision::bf16;
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
    options.device.kind = DeviceKind::cuda;
    CHECK_THROWS_WITH(
        choose_device(options, environment, gpus),
        Contains("--device cuda: CUDA_VISIBLE_DEVICES=") && Contains("hides all GPUs: unset it"));
  }
}

TEST_CASE("the option --device=cuda without a GPU is refused with the reason") {
  NoGpus gpus([] { return not_found("no NVIDIA driver was found", true); });
  Options options;
  options.device.kind = DeviceKind::cuda;
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
  options.precision.format = Precision::bf16;
  options.device.no_deterministic = true;
  WorkerEnvironment environment;
  environment.world_size = 4;
  environment.local_world_size = 2;
  environment.local_rank = 1;
  choose_device(options, environment, gpus);
  CHECK_FALSE(gpus.asked.request.shares);
  options.device.share_gpu = true;
  choose_device(options, environment, gpus);
  CHECK(gpus.asked.request.shares);
  CHECK((gpus.asked.several_ranks && !gpus.asked.deterministic && !gpus.asked.tf32));
  CHECK(gpus.asked.request.newer_type == "bf16");
  options.precision.format = Precision::tf32;
  CHECK_THROWS_AS(choose_device(options, environment, gpus), DataError);  // as there is none
  CHECK((gpus.asked.tf32 && gpus.asked.request.newer_type == "tf32"));
  CHECK((gpus.asked.request.local_rank == 1 && gpus.asked.request.local_world_size == 2));
}

}  // namespace
}  // namespace ddprun::trainer
