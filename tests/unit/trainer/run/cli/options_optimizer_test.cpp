// The options of optimizer, learning rate and precision, and the defaults that depend on others.
#include "trainer/run/cli/option_groups.hpp"

#include <array>
#include <catch2/catch.hpp>

#include "tests/unit/trainer/run/cli/parsed_options.hpp"

namespace ddprun::trainer {
namespace {

TEST_CASE("textclf trains with AdamW at a rate of its own") {
  const Options texts = parse({"--model=textclf"});
  CHECK(texts.optimizer.kind == OptimizerKind::adamw);
  CHECK(base_rate(texts) == 0.0005);
  CHECK(base_rate(parse({"--model=textclf", "--optimizer=sgd"})) == 0.05);
  CHECK(base_rate(parse({"--model=textclf", "--lr=0.01"})) == 0.01);
  CHECK(base_rate(parse({"--model=lenet", "--optimizer=adamw"})) == 0.001);
}

TEST_CASE("the optimizer has PyTorch's defaults, and takes its options in PyTorch's words") {
  CHECK(weight_decay_of(parse({})) == 0);
  CHECK(weight_decay_of(parse({"--optimizer=adamw"})) == 0.01);
  CHECK(weight_decay_of(parse({"--optimizer=adamw", "--weight-decay=0"})) == 0);
  const Options options = parse({"--optimizer=adamw", "--betas=0.8,0.95", "--eps=1e-6"});
  CHECK(options.optimizer.betas == std::array{0.8, 0.95});
  CHECK(options.optimizer.epsilon == 1e-6);
  CHECK(parse({"--grad-clip=0.5"}).optimizer.grad_clip == 0.5);
  CHECK(parse({"--nesterov"}).optimizer.nesterov);
}

TEST_CASE("a warm-up is a number of steps or a share of all") {
  CHECK(parse({}).schedule.warmup.steps == 0);
  CHECK(parse({"--warmup=500"}).schedule.warmup.steps == 500);
  CHECK(parse({"--warmup=6%"}).schedule.warmup.share == Approx(0.06));
  CHECK(parse({"--warmup=0.5%"}).schedule.warmup.share == Approx(0.005));
  CHECK(parse({"--warmup=500"}).schedule.warmup.begin == 0);
  CHECK(parse({"--warmup=500+1"}).schedule.warmup.steps == 500);
  CHECK(parse({"--warmup=500+1"}).schedule.warmup.begin == 1);
  CHECK(parse({"--warmup=6%+1"}).schedule.warmup.share == Approx(0.06));
  CHECK(parse({"--warmup=6%+1"}).schedule.warmup.begin == 1);
}

TEST_CASE("the loss scale is dynamic, none or a number that stays") {
  CHECK(parse({"--precision=fp16"}).precision.loss_scale.kind == LossScale::Kind::dynamic);
  CHECK(parse({"--precision=fp16", "--loss-scale=none"}).precision.loss_scale.kind ==
        LossScale::Kind::none);
  const Options fixed = parse({"--precision=fp16", "--loss-scale=1024"});
  CHECK(fixed.precision.loss_scale.kind == LossScale::Kind::fixed);
  CHECK(fixed.precision.loss_scale.value == 1024);
}

}  // namespace
}  // namespace ddprun::trainer
