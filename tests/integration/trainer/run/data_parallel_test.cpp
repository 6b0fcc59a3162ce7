// --parallel=dp: several replicas in one process, with the bits of as many workers.
#include <catch2/catch.hpp>
#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;
using Catch::Matchers::Contains;

namespace {

using Arguments = std::vector<std::string>;

Arguments joined(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

Arguments replicas(int count) { return {"--parallel=dp", "--replicas=" + std::to_string(count)}; }

Arguments shards(int count) { return {"--shards=" + std::to_string(count)}; }

/// V replicas give the weights and metrics of V shards, for each of the counts.
void check_replicas(Arguments arguments, const std::string& score, const std::vector<int>& counts) {
  arguments.push_back("--checkpoint-every=off");
  for (const std::string& argument : arguments) UNSCOPED_INFO(argument);
  for (const int count : counts) {
    INFO(count << " replicas");
    const std::string ddp = train({.arguments = joined(arguments, shards(count))});
    check_same_result(ddp, train({.arguments = joined(arguments, replicas(count))}), score);
  }
}

}  // namespace

TEST_CASE("replicas of a classifier end with the bits of as many shards, held-out metrics too") {
  struct Case {
    int side;
    Arguments arguments;
    std::vector<int> counts;
  };
  // 250 samples: an epoch has an odd tail with any number of replicas. AlexNet drops out.
  const auto one = GENERATE(values<Case>(
      {{28, {"--model=lenet", "--batch=8"}, {1, 2, 4}},
       {28, {"--model=lenet", "--batch=8", "--crop=24+3", "--flip", "--optimizer=adamw"}, {3}},
       {28, {"--model=lenet", "--batch=8", "--grad-clip=0.1", "--threads-per-shard=2"}, {2}},
       {28, {"--model=lenet", "--batch=8", "--precision=bf16"}, {2}},
       {28, {"--model=lenet", "--batch=8", "--precision=fp16", "--inject-overflow-at=3"}, {3}},
       {63, {"--model=alexnet", "--batch=3", "--momentum=0", "--max-steps=1"}, {2}}}));
  const SmallData data(one.side);
  check_replicas(joined({"--data", data.path(), "--epochs=1"}, one.arguments), "test_accuracy",
                 one.counts);
}

TEST_CASE("replicas of a text classifier end with the bits of as many shards") {
  check_replicas(
      {"--model=textclf", "--sentences=90", "--max-tokens=40", "--batch=8", "--epochs=2"},
      "test_accuracy", {1, 2, 4});
}

TEST_CASE("replicas of a U-Net end with the bits of as many shards") {
  const SmallMasks data(32);
  check_replicas({"--data", data.path(), "--model=unet16", "--epochs=1", "--batch=2", "--lr=0.01",
                  "--pos-weight=auto"},
                 "test_iou", {2});
}

TEST_CASE("replicas that accumulate end with the bits of all their shards") {
  const SmallData data;
  const Arguments arguments{"--data", data.path(), "--epochs=1", "--checkpoint-every=off"};
  const auto weights_of = [&](const Arguments& of, const Arguments& more) {
    return weights({.arguments = joined(arguments, joined(of, more))});
  };
  const std::string six = weights_of(shards(6), {"--batch=8"});
  CHECK(weights_of(replicas(3), {"--batch=8", "--accumulate=2"}) == six);
  CHECK(weights_of(replicas(2), {"--batch=8", "--shards=6"}) == six);
  CHECK(weights_of(replicas(2), {"--global-batch=48", "--accumulate=3"}) == six);
}

TEST_CASE("with batch norm one replica is one shard, and of two only the first one's counts") {
  const SmallData data(12);
  const Arguments arguments{"--data",     data.path(),     "--model=resnet18",      "--batch=8",
                            "--epochs=1", "--max-steps=3", "--checkpoint-every=off"};
  const auto run = [&](const Arguments& more) {
    return train({.arguments = joined(arguments, more)});
  };
  check_same_result(run(shards(1)), run(replicas(1)), "test_accuracy");
  const std::string ddp = run(shards(2));
  const std::string dp = run(replicas(2));
  // The parameters that were trained are the same, so the losses are.
  CHECK(field(dp, "train_loss") == field(ddp, "train_loss"));
  CHECK(field(dp, "weights") != field(ddp, "weights"));
  CHECK(field(dp, "test_loss") != field(ddp, "test_loss"));
}

TEST_CASE("a run of replicas that stopped goes on with the same bits, also as shards and back") {
  const SmallData data;
  const TempDir directory;
  const std::string base = undisturbed(data);
  const Arguments arguments{"--data",     data.path(), "--batch=8",
                            "--epochs=3", "--out",     directory / "out"};
  // Without --shards V is that of the checkpoint, 4.
  for (const Arguments& more :
       {joined(replicas(4), {"--max-steps=5"}), joined(replicas(2), {"--max-steps=11"}),
        Arguments{"--max-steps=17"}, replicas(4)}) {
    const ChildResult result = run(joined({program("train")}, joined(arguments, more)));
    INFO(result.out << result.err);
    REQUIRE(result.status == 0);
    CHECK_THAT(result.err, !Contains("other settings"));
    if (more == replicas(4)) CHECK_THAT(result.out, Contains("weights: " + base));
  }
}

TEST_CASE("replicas that a signal ends leave a checkpoint, and go on with the bits of shards") {
  const SmallData data;
  const TempDir directory;
  const auto out = directory.path() / "out";
  const int signal = GENERATE(SIGTERM, SIGKILL);
  // The rate stays, so that the number of epochs changes no bit. SIGTERM writes the only
  // checkpoint.
  const Arguments arguments{"--data", data.path(), "--batch=8", "--epochs=100000",
                            "--schedule=constant"};
  const Arguments stopped =
      joined(arguments, {"--out", out, "--log-every=1",
                         signal == SIGTERM ? "--checkpoint-every=1000h" : "--checkpoint-every=2"});
  {
    WorkerGroup group({.arguments = joined(stopped, replicas(2)), .json = false});
    const auto has_begun = [&] {
      return signal == SIGTERM ? std::filesystem::exists(out / "metrics.jsonl")
                               : latest_step(out) >= 2;
    };
    REQUIRE(eventually(has_begun, std::chrono::minutes(1)));
    group.rank(0).signal(signal);
    CHECK(group.wait()[0].status == 128 + signal);
  }
  const int step = latest_step(out);
  REQUIRE(step > 0);
  const std::string last = "--max-steps=" + std::to_string(step + 5);
  const ChildResult resumed =
      run(joined({program("train")}, joined(stopped, joined(replicas(2), {last}))));
  INFO(resumed.err);
  REQUIRE(resumed.status == 0);
  CHECK_THAT(resumed.out, Contains("from step " + std::to_string(step) + " of "));
  const Arguments undisturbed{last, "--checkpoint-every=off"};
  const std::string whole =
      weights({.arguments = joined(arguments, joined(shards(2), undisturbed))});
  CHECK_THAT(resumed.out, Contains("weights: " + whole));
}

TEST_CASE("the last table and its JSON have the time of each phase and each replica's memory") {
  const SmallData data;
  const Arguments arguments{"--data", data.path(), "--batch=8", "--epochs=1",
                            "--checkpoint-every=off"};
  const auto line = nlohmann::json::parse(train({.arguments = joined(arguments, replicas(2))}));
  const auto& figures = line.at("data_parallel");
  CHECK(figures.at("replicas") == 2);
  CHECK(figures.at("steps") == line.at("steps"));
  for (const char* phase : {"broadcast", "read", "scatter", "forward", "gather", "loss", "backward",
                            "reduce", "update"}) {
    INFO(phase);
    CHECK(figures.at("phase_seconds").at(phase).get<double>() > 0);
  }
  const auto peaks = figures.at("replica_peak_bytes").get<std::vector<std::int64_t>>();
  REQUIRE(peaks.size() == 2);
  CHECK(peaks[0] - peaks[1] == figures.at("excess_bytes").get<std::int64_t>());
  CHECK(peaks[0] > peaks[1]);
  CHECK(peaks[1] > 0);
  CHECK(line.at("peak_device_bytes").at(0).get<std::int64_t>() == peaks[0] + peaks[1]);

  const ChildResult text = run(joined({program("train")}, joined(arguments, replicas(2))));
  CHECK_THAT(text.out, Contains("1 worker with 2 replicas (dp) on the CPU, V=2"));
  CHECK_THAT(text.out, Contains("broadcast ") && Contains("replica 0 holds ") &&
                           Contains("\npeak memory of all 2 replicas together:\n"));
  CHECK(train({.arguments = arguments}).find("data_parallel") == std::string::npos);
}
