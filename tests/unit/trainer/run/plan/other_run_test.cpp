#include "trainer/run/plan/other_run.hpp"

#include <catch2/catch.hpp>

#include "trainer/run/plan/plan.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

const DataFacts kImages{.name = "set",
                        .content = "0123",
                        .test_content = "4567",
                        .samples = 1000,
                        .shape = {.height = 64, .width = 64, .channels = 1},
                        .classes = 10};

Options defaults() {
  Options options;
  options.batches.shards = 2;
  return options;
}

struct Made {
  Options options = defaults();
  DataFacts data = kImages;
  [[nodiscard]] RunConfig config() const {
    return make_plan(options, WorkerEnvironment{}, data, std::nullopt).config;
  }
};

std::string another(const Made& there, const Made& here) {
  return why_another_run(differences_of(there.config(), here.config()));
}

std::string settings(const Made& there, const Made& here) {
  return other_settings_text(differences_of(there.config(), here.config()));
}

TEST_CASE("the same options make the same run") {
  CHECK(another({}, {}).empty());
  CHECK(settings({}, {}).empty());
}

TEST_CASE("options that make another run are named, with both values and what to give") {
  Made there;
  Made here;
  there.options.batches.batch = 16;
  here.options.seed = 7;
  here.options.data.preparation.flip = true;
  CHECK(another(there, here) ==
        "it belongs to another run: --batch 16 there, 64 here, --seed 0 there, 7 here, --flip "
        "here, not there: give --batch=16, --seed=0, no --flip to go on with it");
}

TEST_CASE("of another --tokens the hashes and the vocabulary that follow are left out") {
  Made there;
  there.options.model.name = ModelName::textclf;
  there.options.data.folder = "folder";
  there.data.text.vocabulary = 100;
  Made here = there;
  here.options.data.tokens = TokenKind::bytes;
  here.data.text.vocabulary = 260;
  here.data.content = here.data.test_content = "89ab";
  CHECK(another(there, here) ==
        "it belongs to another run: --tokens words there, bytes here: give --tokens=words to go "
        "on with it");
}

TEST_CASE("of another model nothing else is told, and of other data what it comes to is left out") {
  Made there;
  Made here;
  here.options.model.name = ModelName::alexnet;
  here.options.batches.batch = 3;
  here.data.shape.channels = 3;
  CHECK(another(there, here) ==
        "it belongs to another run: --model lenet there, alexnet here: give --model=lenet to go "
        "on with it");
  here = {};
  here.data = {.name = "other",
               .content = "cdef",
               .test_content = "cdef",
               .samples = 7,
               .shape = kImages.shape,
               .classes = 10};
  CHECK(another(there, here) ==
        "it belongs to another run: --data set (0123) there, other (cdef) here: give the same "
        "--data, with the same options of samples to go on with it");
}

TEST_CASE("a value that only one side has is told of as it is given") {
  Made there;
  Made here;
  here.data.initial_weights = "abcd";
  here.options.model.init_from = "a.safetensors";
  CHECK_THAT(another(there, here),
             Contains("--init-from none there, a.safetensors (abcd) here: give no --init-from"));
  CHECK_THAT(another(here, there), Contains("give --init-from=a.safetensors to go on"));
  there.options.model.normal_init = 0.01;
  CHECK_THAT(another(there, {}),
             Contains("--init normal:0.01 there, default here: give --init=normal:0.01"));
}

TEST_CASE("other settings are named in the same way") {
  Made there;
  Made here;
  here.options.optimizer.learning_rate = 0.5;
  CHECK(settings(there, here) ==
        " was written with other settings (--lr 0.05 there, 0.5 here): the result is not that of "
        "one undisturbed run: give --lr=0.05 to have that");
  CHECK(another(there, here).empty());
  here.options.optimizer.grad_clip = 2;
  CHECK_THAT(settings(there, here), Contains("--grad-clip 0 there, 2.0 here"));
}

TEST_CASE("the default of a setting that a checkpoint does not have is what to give") {
  Made there;
  there.options.optimizer.kind = OptimizerKind::adamw;
  there.options.precision.format = Precision::fp16;
  Made here = there;
  here.options.optimizer.betas = {0.8, 0.9};
  here.options.optimizer.epsilon = 1e-6;
  here.options.optimizer.decay = Decay::all;
  here.options.optimizer.grad_clip = 1;
  here.options.precision.loss_scale = {.kind = LossScale::Kind::none};
  CHECK_THAT(
      settings(there, here),
      Contains("--decay weights there, all here") &&
          Contains("--betas 0.9,0.999 there, 0.8,0.9 here") &&
          Contains("--loss-scale dynamic there, none here") &&
          Contains("give --decay=weights, --betas=0.9,0.999, --eps=1e-08, --loss-scale=dynamic, "
                   "--grad-clip=0 to have that"));
  CHECK_THAT(settings(here, there), Contains("give --decay=all, --betas=0.8,0.9, --eps=1e-06, "
                                             "--loss-scale=none, --grad-clip=1.0 to have that"));
  here = there;
  here.options.data.preparation.normalize = parse_normalize("imagenet");
  here.options.data.preparation.crop = Crop{.height = 8, .width = 8};
  CHECK_THAT(another(there, here), Contains("--crop none there, ") &&
                                       Contains("give no --crop, --normalize=measured to go on"));
}

TEST_CASE("a run with batch norm that goes on with replicas is told of --parallel") {
  Made ddp;
  ddp.options.model.name = ModelName::resnet18;
  Made dp = ddp;
  dp.options.device.parallel = Parallel::dp;
  dp.options.device.replicas = 2;
  CHECK_THAT(settings(ddp, dp), Contains("(--parallel ddp there, dp with 2 replicas here)") &&
                                    Contains("give --parallel=ddp to have that"));
  CHECK_THAT(settings(dp, ddp), Contains("(--parallel dp with 2 replicas there, ddp here)") &&
                                    Contains("give --parallel=dp --replicas=2 to"));
  Made four = dp;
  ddp.options.batches.shards = dp.options.batches.shards = four.options.batches.shards = 4;
  four.options.device.replicas = 4;
  CHECK_THAT(settings(dp, four), Contains("(--replicas 2 there, 4 here)"));
}

}  // namespace
}  // namespace ddprun::trainer
